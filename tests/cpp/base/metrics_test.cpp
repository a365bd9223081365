#include "base/metrics.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace torch_pjrt::base {
namespace {

TEST(Metrics, ANameAlwaysGivesTheSameFigure) {
  Counter& first = counter("test.same");
  first.add(3);
  EXPECT_EQ(&counter(std::string("test.") + "same"), &first);
  EXPECT_EQ(std::get<int64_t>(snapshot().find("test.same")->second), 3);
}

TEST(Metrics, ResetZeroesCountersAndTimersButNotGauges) {
  counter("test.reset.counter").add(5);
  gauge("test.reset.gauge").add(7);
  timer("test.reset.timer").add(std::chrono::milliseconds(1500));
  auto before = snapshot();
  EXPECT_EQ(std::get<int64_t>(before["test.reset.counter"]), 5);
  EXPECT_EQ(std::get<TimerValue>(before["test.reset.timer"]).count, 1);
  EXPECT_DOUBLE_EQ(std::get<TimerValue>(before["test.reset.timer"]).seconds, 1.5);

  reset();
  auto after = snapshot();
  EXPECT_EQ(std::get<int64_t>(after["test.reset.counter"]), 0);
  EXPECT_EQ(std::get<int64_t>(after["test.reset.gauge"]), 7);
  EXPECT_EQ(std::get<TimerValue>(after["test.reset.timer"]).count, 0);
  EXPECT_EQ(std::get<TimerValue>(after["test.reset.timer"]).seconds, 0);
}

TEST(Metrics, ANameBelongsToOneKind) {
  counter("test.kind");
  EXPECT_THROW(timer("test.kind"), std::logic_error);
  EXPECT_THROW(gauge("test.kind"), std::logic_error);
}

TEST(Metrics, ThreadsLoseNoIncrement) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 1000; ++k) counter("test.threads").add();
      counter("test.threads." + std::to_string(i)).add();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter("test.threads").value(), 4000);
  EXPECT_EQ(counter("test.threads.3").value(), 1);
}

TEST(Metrics, AScopedTimerCountsItsScope) {
  {
    ScopedTimer timed(timer("test.scope"));
  }
  EXPECT_EQ(timer("test.scope").value().count, 1);
}

}  // namespace
}  // namespace torch_pjrt::base
