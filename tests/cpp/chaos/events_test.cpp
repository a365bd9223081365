// Events that come late, on another thread and in another order.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "chaos/chaos_test_support.h"
#include "pjrt/arrays.h"
#include "pjrt/programs.h"

namespace torch_pjrt {
namespace {

class ChaosEvents : public WithChaos {
 protected:
  // The order in which the callbacks of eight events ran; all on one thread that is not this one.
  std::vector<int> order_of_callbacks(const std::string& options) {
    chaos().configure(options);
    const pjrt::Buffer buffer = pjrt::put(client(), device(), {1, 2});
    constexpr int kEvents = 8;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<int> order;
    std::vector<std::thread::id> threads;
    std::vector<pjrt::Event> events;
    for (int i = 0; i < kEvents; ++i) {
      events.push_back(buffer.ready_event());
      events.back().on_ready([&, i](const pjrt::Error*) noexcept {
        const std::lock_guard lock(mutex);
        order.push_back(i);
        threads.push_back(std::this_thread::get_id());
        changed.notify_all();
      });
    }
    std::unique_lock lock(mutex);
    EXPECT_TRUE(
        changed.wait_for(lock, std::chrono::seconds(20), [&] { return order.size() == kEvents; }));
    for (const std::thread::id id : threads) {
      EXPECT_EQ(id, threads.front());
      EXPECT_NE(id, std::this_thread::get_id());
    }
    return order;
  }
};
RUN_ON_EACH_PLUGIN(ChaosEvents);

TEST_P(ChaosEvents, AreCompletedInTheOrderThatIsAskedFor) {
  EXPECT_EQ(order_of_callbacks("delay_ms=50;order=recorded"),
            (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(order_of_callbacks("delay_ms=50;order=reversed"),
            (std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}));
  std::vector<int> random = order_of_callbacks("delay_ms=50;order=random;seed=1");
  EXPECT_FALSE(std::is_sorted(random.begin(), random.end()));
  std::sort(random.begin(), random.end());
  EXPECT_EQ(random, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(ChaosEvents, AreLateForThoseWhoWaitToo) {
  chaos().configure("delay_ms=60");
  const pjrt::Buffer buffer = pjrt::put(client(), device(), {1});
  const auto start = std::chrono::steady_clock::now();
  const pjrt::Event event = buffer.ready_event();
  EXPECT_FALSE(event.is_ready());
  event.await();
  EXPECT_TRUE(event.is_ready());
  EXPECT_FALSE(event.error());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
  EXPECT_GE(chaos().count("events_delayed"), 2);
}

TEST_P(ChaosEvents, OfAnExecutionAreDelayedAndItsResultIsRight) {
  const pjrt::LoadedExecutable program = pjrt::compile(client(), pjrt::kDouble);
  chaos().configure("delay_ms=30;order=random;seed=3");
  const pjrt::Buffer input = pjrt::put(client(), device(), std::vector<float>(16, 2));
  std::vector<pjrt::Buffer> outputs;
  pjrt::Event complete;
  PJRT_Buffer* const argument = input.get();
  program.execute({&argument, 1}, {}, outputs, &complete);
  EXPECT_FALSE(complete.is_ready());
  complete.await();
  EXPECT_EQ(pjrt::get(outputs[0]), std::vector<float>(16, 4));
}

TEST_P(ChaosEvents, RunCallbacksAlsoWhenTheHandleIsGone) {
  chaos().configure("delay_ms=30");
  const pjrt::Buffer buffer = pjrt::put(client(), device(), {1});
  std::atomic<bool> ran{false};
  buffer.ready_event().on_ready([&](const pjrt::Error*) noexcept {
    ran = true;
    ran.notify_all();
  });
  EXPECT_EQ(chaos().count("events_alive"), 0);
  ran.wait(false);
}

TEST_P(ChaosEvents, StayTheWrappedPluginsWithoutDelay) {
  chaos().configure("");
  const pjrt::Buffer buffer = pjrt::put(client(), device(), {1});
  const pjrt::Event event = buffer.ready_event();
  event.await();
  EXPECT_EQ(chaos().count("events_alive"), 0);
  EXPECT_EQ(chaos().count("events_delayed"), 0);
}

}  // namespace
}  // namespace torch_pjrt
