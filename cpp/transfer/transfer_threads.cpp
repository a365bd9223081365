#include "transfer/transfer_threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/environment.h"

namespace torch_pjrt::transfer {
namespace {

size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

size_t wanted_threads() {
  constexpr size_t kDefaultMost = 8;
  return base::environment_number("TORCH_PJRT_TRANSFER_THREADS", 1, 256)
      .value_or(std::min(usable_cores(), kDefaultMost));
}

// One list of pieces at a time. `next` hands out pieces to whoever asks; a helper counts itself
// in under the mutex before it takes a piece, so that the caller knows when all have left.
class Crew {
 public:
  explicit Crew(size_t helpers) {
    for (size_t i = 0; i < helpers; ++i) {
      try {
        std::thread([this] { help(); }).detach();
        ++helpers_;
      } catch (const std::system_error&) {
        break;  // fewer threads, the same result
      }
    }
  }

  bool try_run(size_t pieces, const std::function<void(size_t)>& work) {
    if (helpers_ == 0) return false;
    std::unique_lock one_caller(callers_, std::try_to_lock);
    if (!one_caller) return false;
    {
      std::lock_guard lock(mutex_);
      work_ = &work;
      pieces_ = pieces;
      next_.store(0, std::memory_order_relaxed);
    }
    wake_.notify_all();
    take_pieces(work, pieces);
    std::unique_lock lock(mutex_);
    work_ = nullptr;  // who wakes only now finds nothing to do
    left_.wait(lock, [this] { return working_ == 0; });
    return true;
  }

 private:
  void take_pieces(const std::function<void(size_t)>& work, size_t pieces) {
    for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < pieces;) work(i);
  }

  void help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] {
        return work_ != nullptr && next_.load(std::memory_order_relaxed) < pieces_;
      });
      const auto* work = work_;
      const size_t pieces = pieces_;
      ++working_;
      lock.unlock();
      take_pieces(*work, pieces);
      lock.lock();
      if (--working_ == 0) left_.notify_one();
    }
  }

  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable wake_, left_;
  const std::function<void(size_t)>* work_ = nullptr;
  size_t pieces_ = 0;
  size_t working_ = 0;
  size_t helpers_ = 0;
  std::atomic<size_t> next_{0};
};

std::atomic<bool> in_forked_child{false};

Crew& crew() {
  static Crew* const instance = [] {
    pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
    return new Crew(TransferThreads::count() - 1);  // never destroyed: its threads use it
  }();
  return *instance;
}

}  // namespace

size_t TransferThreads::count() {
  static const size_t count = wanted_threads();
  return count;
}

void TransferThreads::run(size_t pieces, const std::function<void(size_t)>& work) {
  if (pieces > 1 && count() > 1 && !in_forked_child && crew().try_run(pieces, work)) return;
  for (size_t i = 0; i < pieces; ++i) work(i);
}

}  // namespace torch_pjrt::transfer
