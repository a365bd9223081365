#include "event_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "counts.h"
#include "options.h"

namespace pjrt_chaos {
namespace {

struct Work {
  uint64_t sequence;
  std::function<void()> run;
};

// Never destroyed: the thread outlives static destruction.
class EventThread {
 public:
  void add(Work work) {
    {
      const std::lock_guard lock(mutex_);
      if (!started_) {
        started_ = true;
        std::thread thread([this] { loop(); });
        id_ = thread.get_id();
        pthread_setname_np(thread.native_handle(), "pjrt-chaos");
        thread.detach();
      }
      waiting_.push_back(std::move(work));
      ++given_;
    }
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    if (!started_ || std::this_thread::get_id() == id_) return;
    const uint64_t goal = given_;
    changed_.wait(lock, [&] { return done_ >= goal; });
  }

 private:
  void loop() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !waiting_.empty(); });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(options().delay_milliseconds));
      std::vector<Work> batch;
      {
        const std::lock_guard lock(mutex_);
        batch.swap(waiting_);
      }
      put_in_order(batch);
      for (Work& work : batch) {
        pjrt_chaos::add(Count::kEventsDelayed);  // before those wake who wait for the event
        work.run();
        work.run = nullptr;
        {
          const std::lock_guard lock(mutex_);
          ++done_;
        }
        changed_.notify_all();
      }
    }
  }

  void put_in_order(std::vector<Work>& batch) {
    std::sort(batch.begin(), batch.end(),
              [](const Work& a, const Work& b) { return a.sequence < b.sequence; });
    const Options& now = options();
    if (&now != seeded_for_) {
      seeded_for_ = &now;
      random_.seed(now.seed);
    }
    if (now.order == EventOrder::kReversed) std::reverse(batch.begin(), batch.end());
    if (now.order == EventOrder::kRandom) std::shuffle(batch.begin(), batch.end(), random_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Work> waiting_;
  uint64_t given_ = 0;
  uint64_t done_ = 0;
  bool started_ = false;
  std::thread::id id_;

  std::mt19937_64 random_;               // of the thread alone
  const Options* seeded_for_ = nullptr;  // of the thread alone
};

EventThread& thread() {
  static auto* const instance = new EventThread;
  return *instance;
}

}  // namespace

void run_on_event_thread(uint64_t sequence, std::function<void()> work) {
  thread().add({sequence, std::move(work)});
}

void wait_for_event_thread() { thread().wait(); }

}  // namespace pjrt_chaos
