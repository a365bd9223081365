#include "base/trace_range.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace torch_pjrt::base {
namespace {

int entered = 0, left = 0;
const RangeHooks kRangeHooks{[](const char* name) noexcept -> void* {
                               return std::string(name) == "quiet" ? nullptr : &++entered;
                             },
                             [](void*) noexcept { ++left; }};

TEST(TraceRangeTest, CollectsRangesOfEveryThreadWhileItIsOn) {
  {
    TraceRange before("before");
  }
  start_tracing();
  EXPECT_TRUE(is_tracing());
  {
    TraceRange outer("outer");
    outer.set_bytes(7);
    outer.set_detail("flat");
    std::thread([] { TraceRange inner("inner"); }).join();
  }
  const auto now = std::chrono::steady_clock::now();
  expect_work();
  trace_work("execute", "xla:0", now, now);
  const std::vector<TraceEvent> events = stop_tracing();
  {
    TraceRange after("after");
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_STREQ(events[0].name, "inner");
  EXPECT_STREQ(events[1].name, "outer");
  EXPECT_NE(events[0].thread, events[1].thread);
  EXPECT_LE(events[1].start, events[0].start);
  EXPECT_GE(events[1].end, events[0].end);
  EXPECT_EQ(events[1].bytes, 7);
  EXPECT_STREQ(events[2].track, "xla:0");
  EXPECT_TRUE(stop_tracing().empty());

  const std::string json = chrome_trace(events);
  EXPECT_NE(json.find(R"("name":"outer","ph":"X")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("args":{"bytes":7,"path":"flat"})"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("args":{"name":"xla:0"})"), std::string::npos) << json;
}

TEST(TraceRangeTest, TellsTheHooksOfEachRange) {
  set_range_hooks(&kRangeHooks);
  entered = left = 0;
  {
    TraceRange range("one");
  }
  {
    TraceRange range("quiet");
  }
  EXPECT_EQ(entered, 1);
  EXPECT_EQ(left, 1);
  set_range_hooks(nullptr);
  {
    TraceRange range("two");
  }
  EXPECT_EQ(entered, 1);
}

}  // namespace
}  // namespace torch_pjrt::base
