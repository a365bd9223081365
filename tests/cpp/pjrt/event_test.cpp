#include "pjrt/event.h"

#include <gtest/gtest.h>

#include <future>

#include "arrays.h"
#include "base/blocking_region.h"
#include "on_each_plugin.h"
#include "programs.h"

namespace torch_pjrt::pjrt {
namespace {

TEST(EmptyEvent, IsReadyWithoutError) {
  const Event event;
  EXPECT_TRUE(event.is_ready());
  EXPECT_NO_THROW(event.await());
  EXPECT_FALSE(event.error().has_value());
  bool called = false;
  event.on_ready([&](const Error* error) noexcept { called = error == nullptr; });
  EXPECT_TRUE(called);
}

class EventOnPlugin : public OnEachPlugin {
 protected:
  // A transfer that has not ended: its buffer's events stay open until `finish` or `fail`.
  void SetUp() override {
    const int64_t size = 1;
    const ArraySpec spec{ElementType::kF32, {&size, 1}};
    try {
      transfer_ = client().create_async_transfer({&spec, 1}, device().default_memory());
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
      GTEST_SKIP() << error.what();
    }
    buffer_ = transfer_.retrieve(0);
  }
  void finish() {
    static const float value = 1;
    transfer_.transfer(0, &value, 0, 4, true).await();
  }
  void fail() { transfer_.set_error(0, ErrorCode::kDataLoss, "made to fail"); }

  AsyncTransfer transfer_;
  Buffer buffer_;
};

TEST_P(EventOnPlugin, BecomesReady) {
  const Event event = buffer_.ready_event();
  EXPECT_FALSE(event.is_ready());
  EXPECT_FALSE(event.error().has_value());
  finish();
  event.await();
  EXPECT_TRUE(event.is_ready());
  EXPECT_FALSE(event.error().has_value());
}

TEST_P(EventOnPlugin, CarriesAnError) {
  const Event event = buffer_.ready_event();
  std::promise<std::string> told;
  event.on_ready([&](const Error* error) noexcept {
    told.set_value(error != nullptr ? error->what() : "no error");
  });
  fail();
  try {
    event.await("wait for the test");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find("wait for the test: DATA_LOSS: "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("made to fail"), std::string::npos);
  }
  EXPECT_TRUE(event.is_ready());
  ASSERT_TRUE(event.error().has_value());
  EXPECT_EQ(event.error()->code(), ErrorCode::kDataLoss);
  EXPECT_NE(told.get_future().get().find("made to fail"), std::string::npos);
}

TEST_P(EventOnPlugin, ACallbackRunsThoughTheEventIsGone) {
  std::promise<bool> told;
  buffer_.ready_event().on_ready(
      [&](const Error* error) noexcept { told.set_value(error == nullptr); });
  auto future = told.get_future();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  finish();
  EXPECT_TRUE(future.get());
}

TEST_P(EventOnPlugin, ACallbackOnAReadyEventRuns) {
  finish();
  const Event event = buffer_.ready_event();
  event.await();
  std::promise<bool> told;
  event.on_ready([&](const Error* error) noexcept { told.set_value(error == nullptr); });
  EXPECT_TRUE(told.get_future().get());
}

int regions = 0;
const base::BlockingHooks kCounting{[]() noexcept -> void* {
                                      ++regions;
                                      return nullptr;
                                    },
                                    nullptr};

TEST_P(EventOnPlugin, OnlyAWaitThatWaitsIsABlockingRegion) {
  const Event event = buffer_.ready_event();
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finish();
  });
  regions = 0;
  base::set_blocking_hooks(&kCounting);
  event.await();
  const int while_waiting = regions;
  event.await();
  base::set_blocking_hooks(nullptr);
  later.join();
  EXPECT_GE(while_waiting, 1);
  EXPECT_EQ(regions, while_waiting);
}

RUN_ON_EACH_PLUGIN(EventOnPlugin);

}  // namespace
}  // namespace torch_pjrt::pjrt
