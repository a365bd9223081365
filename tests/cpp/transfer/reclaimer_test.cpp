#include "transfer/reclaimer.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace torch_pjrt::transfer {
namespace {

using namespace std::chrono_literals;

struct AtDestruction : Holder {
  explicit AtDestruction(std::function<void()> action) : action(std::move(action)) {}
  ~AtDestruction() override { action(); }
  std::function<void()> action;
};

std::unique_ptr<Holder> at_destruction(std::function<void()> action) {
  return std::make_unique<AtDestruction>(std::move(action));
}

Reclaimer& reclaimer() { return Reclaimer::instance(); }

// Ends a forked child with 0 if `passes` returns true, and reports it.
bool child_passes(const std::function<bool()>& passes) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs is killed, and fails
    _exit(passes() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Reclaimer, DestroysInOrderOnItsOwnThread) {
  std::vector<int> order;
  std::thread::id thread;
  for (int i = 0; i < 1000; ++i) {
    reclaimer().reclaim(at_destruction([&, i] {
      order.push_back(i);
      thread = std::this_thread::get_id();
    }));
  }
  ASSERT_TRUE(reclaimer().drain(10s));
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(reclaimer().pending(), 0u);
}

TEST(Reclaimer, HoldsAnyMovableValueOnce) {
  auto value = std::make_shared<int>(1);
  std::weak_ptr<int> watched = value;
  reclaimer().reclaim(hold(std::move(value)));
  reclaimer().reclaim(nullptr);
  ASSERT_TRUE(reclaimer().drain(10s));
  EXPECT_TRUE(watched.expired());
}

TEST(Reclaimer, TakesFromManyThreadsAtOnce) {
  std::atomic<int> destroyed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) reclaimer().reclaim(at_destruction([&] { ++destroyed; }));
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(reclaimer().drain(10s));
  EXPECT_EQ(destroyed, 16000);
}

TEST(Reclaimer, MayReclaimAndDrainWhileItDestroys) {
  bool inner = false, drained = false;
  reclaimer().reclaim(at_destruction([&] {
    reclaimer().reclaim(at_destruction([&] { inner = true; }));
    drained = reclaimer().drain(10s);  // its own thread cannot wait for itself
  }));
  ASSERT_TRUE(reclaimer().drain(10s));
  ASSERT_TRUE(reclaimer().drain(10s));
  EXPECT_TRUE(inner);
  EXPECT_TRUE(drained);
}

TEST(Reclaimer, DrainGivesUpInTime) {
  std::mutex mutex;
  mutex.lock();
  reclaimer().reclaim(at_destruction([&] { std::lock_guard lock(mutex); }));
  EXPECT_FALSE(reclaimer().drain(20ms));
  EXPECT_EQ(reclaimer().pending(), 1u);
  mutex.unlock();
  EXPECT_TRUE(reclaimer().drain(10s));
}

TEST(Reclaimer, IsInertInAChildOfAProcessThatUsedIt) {
  reclaimer().reclaim(hold(1));
  ASSERT_TRUE(reclaimer().drain(10s));
  EXPECT_TRUE(child_passes([] {
    bool destroyed = false;
    reclaimer().reclaim(at_destruction([&] { destroyed = true; }));
    const bool drained = reclaimer().drain(10s);
    usleep(20000);
    return drained && !destroyed;
  }));
  reclaimer().reclaim(hold(1));
  EXPECT_TRUE(reclaimer().drain(10s));  // the parent's goes on
}

// Runs in a process of its own, because nothing undoes abandon().
TEST(ReclaimerDeathTest, DestroysNothingAfterAbandon) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::mutex mutex;
        std::atomic<int> destroyed{0};
        mutex.lock();
        reclaimer().reclaim(at_destruction([&] { std::lock_guard lock(mutex); }));
        reclaimer().reclaim(at_destruction([&] { ++destroyed; }));
        reclaimer().abandon();
        reclaimer().reclaim(at_destruction([&] { ++destroyed; }));
        mutex.unlock();
        const bool drained = reclaimer().drain(10s);
        usleep(50000);
        _exit(drained && destroyed == 0 ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace torch_pjrt::transfer
