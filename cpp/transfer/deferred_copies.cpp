#include "transfer/deferred_copies.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/blocking_region.h"
#include "transfer/device_to_host.h"

namespace torch_pjrt::transfer {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable added, done;
  std::vector<DeferredCopy> waiting;
  uint64_t taken = 0;     // copies ever added
  uint64_t finished = 0;  // of these, complete or failed
  std::exception_ptr error;
  bool has_thread = false;
  std::atomic<uint64_t> pending{0};
};

std::atomic<bool> in_forked_child{false};

State& state() {
  static State* const instance = [] {
    pthread_atfork(nullptr, nullptr, [] { in_forked_child = true; });
    return new State;  // never destroyed: its thread uses it
  }();
  return *instance;
}

// Those of one client at once; the error is the first one's, and the others are complete.
std::exception_ptr copy_all(std::vector<DeferredCopy>& copies) noexcept {
  std::exception_ptr first;
  for (size_t begin = 0, end = 0; begin < copies.size(); begin = end) {
    const pjrt::Client* const client = copies[begin].client;
    try {
      std::vector<DeviceToHostCopy> batch;
      for (; end < copies.size() && copies[end].client == client; ++end) {
        const DeferredCopy& copy = copies[end];
        batch.push_back({copy.buffer, {copy.data, copy.dimensions, copy.byte_strides}});
      }
      device_to_host(*client, batch);
    } catch (...) {
      if (!first) first = std::current_exception();
      if (end == begin) break;  // no memory for the batch itself
    }
  }
  return first;
}

void work() noexcept {
  State& state = transfer::state();
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.added.wait(lock, [&] { return !state.waiting.empty(); });
    std::vector<DeferredCopy> copies;
    copies.swap(state.waiting);
    lock.unlock();
    const std::exception_ptr error = copy_all(copies);
    for (DeferredCopy& copy : copies) Reclaimer::instance().reclaim(std::move(copy.keep));
    lock.lock();
    if (error && !state.error) state.error = error;
    state.finished += copies.size();
    state.pending.fetch_sub(copies.size());
    state.done.notify_all();
  }
}

}  // namespace

void DeferredCopies::add(DeferredCopy copy) {
  State& state = transfer::state();
  std::lock_guard lock(state.mutex);
  if (!state.has_thread) {
    std::thread(work).detach();
    state.has_thread = true;
  }
  state.waiting.push_back(std::move(copy));
  ++state.taken;
  state.pending.fetch_add(1);
  state.added.notify_one();
}

bool DeferredCopies::are_pending() noexcept {
  return state().pending.load() != 0 && !in_forked_child;
}

void DeferredCopies::wait() noexcept {
  if (!are_pending()) return;
  State& state = transfer::state();
  const base::BlockingRegion region;
  std::unique_lock lock(state.mutex);
  const uint64_t goal = state.taken;
  state.done.wait(lock, [&] { return state.finished >= goal; });
}

void DeferredCopies::wait_and_throw() {
  wait();
  State& state = transfer::state();
  std::exception_ptr error;
  {
    std::lock_guard lock(state.mutex);
    error = std::exchange(state.error, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace torch_pjrt::transfer
