#include "transfer/reclaimer.h"

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "base/blocking_region.h"

namespace torch_pjrt::transfer {

struct Reclaimer::State {
  enum Phase : int { kNew, kRunning, kStopped };

  std::atomic<int> phase{kNew};
  std::atomic<Holder*> newest{nullptr};  // a stack; the thread takes all of it and reverses it
  std::atomic<uint64_t> taken{0};
  std::atomic<uint64_t> destroyed{0};
  std::mutex start_mutex;
  std::thread::id thread;
  std::mutex drain_mutex;
  std::condition_variable drained;
};

Reclaimer& Reclaimer::instance() noexcept {
  static Reclaimer* const reclaimer = new Reclaimer;
  return *reclaimer;
}

Reclaimer::Reclaimer() noexcept : state_(new State) {
  // The thread does not exist in a forked child, and what is queued belongs to a client that does
  // not work there: nothing is destroyed in it. A child of a process that never used the
  // reclaimer starts afresh.
  pthread_atfork(nullptr, nullptr, [] { instance().become_inert(); });
}

void Reclaimer::become_inert() noexcept {
  int running = State::kRunning;
  state_->phase.compare_exchange_strong(running, State::kStopped);
}

void Reclaimer::start() noexcept {
  State& state = *state_;
  std::lock_guard lock(state.start_mutex);
  if (state.phase.load() != State::kNew) return;
  try {
    std::thread thread([this] { work(); });
    state.thread = thread.get_id();
    thread.detach();
    state.phase.store(State::kRunning);
  } catch (const std::system_error&) {
    // No thread to be had now; the next push tries again, and until then the queue keeps all.
  }
}

void Reclaimer::reclaim(std::unique_ptr<Holder> holder) noexcept {
  if (!holder) return;
  State& state = *state_;
  Holder* const added = holder.release();
  state.taken.fetch_add(1);
  added->next_ = state.newest.load(std::memory_order_relaxed);
  while (!state.newest.compare_exchange_weak(added->next_, added)) {
  }
  state.newest.notify_one();
  if (state.phase.load(std::memory_order_relaxed) == State::kNew) start();
}

void Reclaimer::work() noexcept {
  State& state = *state_;
  for (;;) {
    state.newest.wait(nullptr);
    Holder* holder = state.newest.exchange(nullptr);
    Holder* oldest = nullptr;
    while (holder) {
      Holder* const next = holder->next_;
      holder->next_ = oldest;
      oldest = holder;
      holder = next;
    }
    while (oldest) {
      if (state.phase.load() == State::kStopped) return;
      Holder* const next = oldest->next_;
      delete oldest;
      state.destroyed.fetch_add(1);
      oldest = next;
    }
    {
      std::lock_guard lock(state.drain_mutex);
    }  // or a waiter could miss the notification
    state.drained.notify_all();
  }
}

bool Reclaimer::drain(std::chrono::milliseconds timeout) noexcept {
  State& state = *state_;
  const uint64_t goal = state.taken.load();
  const auto done = [&] {
    return state.destroyed.load() >= goal || state.phase.load() == State::kStopped;
  };
  if (done() || std::this_thread::get_id() == state.thread) return true;
  base::BlockingRegion region;
  std::unique_lock lock(state.drain_mutex);
  return state.drained.wait_for(lock, timeout, done);
}

void Reclaimer::abandon() noexcept {
  state_->phase.store(State::kStopped);
  {
    std::lock_guard lock(state_->drain_mutex);
  }
  state_->drained.notify_all();
}

size_t Reclaimer::pending() const noexcept {
  // In this order: what is destroyed between the two reads was also taken.
  const uint64_t destroyed = state_->destroyed.load();
  return state_->taken.load() - destroyed;
}

}  // namespace torch_pjrt::transfer
