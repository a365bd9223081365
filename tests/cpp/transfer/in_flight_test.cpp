#include "transfer/in_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "base/metrics.h"

namespace torch_pjrt::transfer {
namespace {

using namespace std::chrono_literals;

class InFlightTest : public testing::Test {
 protected:
  ~InFlightTest() override { InFlight::set_limit(before_); }
  size_t used() { return static_cast<size_t>(base::gauge("transfer.in_flight_bytes").value()); }

 private:
  size_t before_ = InFlight::limit();
};

TEST_F(InFlightTest, WaitsAtTheLimitUntilSomethingIsGivenBack) {
  InFlight::set_limit(150);
  std::optional<InFlight> first = InFlight::reserve(100);
  const InFlight fits = InFlight::reserve(50);
  const int64_t waits = base::counter("transfer.in_flight_waits").value();
  std::atomic<bool> entered{false};
  std::thread other([&] {
    const InFlight second = InFlight::reserve(100);
    entered = true;
  });
  std::this_thread::sleep_for(30ms);
  EXPECT_FALSE(entered);
  first.reset();
  other.join();
  EXPECT_TRUE(entered);
  EXPECT_EQ(used(), 50u);
  EXPECT_EQ(base::counter("transfer.in_flight_waits").value(), waits + 1);
}

TEST_F(InFlightTest, LetsOneThatIsLargerThanTheLimitGoAlone) {
  InFlight::set_limit(10);
  {
    const InFlight large = InFlight::reserve(1000);
    EXPECT_EQ(used(), 1000u);
  }
  EXPECT_EQ(used(), 0u);
}

TEST_F(InFlightTest, AHigherLimitWakesWhoWaits) {
  InFlight::set_limit(10);
  const InFlight first = InFlight::reserve(10);
  std::thread other([] { InFlight::reserve(10); });
  std::this_thread::sleep_for(5ms);
  InFlight::set_limit(20);
  other.join();
}

TEST_F(InFlightTest, MovesItsShare) {
  InFlight first = InFlight::reserve(7);
  InFlight second = std::move(first);
  first = InFlight();
  EXPECT_EQ(used(), 7u);
  second = InFlight();
  EXPECT_EQ(used(), 0u);
}

}  // namespace
}  // namespace torch_pjrt::transfer
