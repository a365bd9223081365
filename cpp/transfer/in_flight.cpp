#include "transfer/in_flight.h"

#include <condition_variable>
#include <mutex>

#include "base/blocking_region.h"
#include "base/metrics.h"

namespace torch_pjrt::transfer {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable freed;
  size_t limit = size_t{1} << 30;
  size_t used = 0;
  base::Counter& gauge = base::gauge("transfer.in_flight_bytes");
  base::Counter& waits = base::counter("transfer.in_flight_waits");
  base::Timer& seconds = base::timer("transfer.in_flight_wait_seconds");

  bool fits(size_t bytes) const noexcept { return used == 0 || used + bytes <= limit; }
  void take(size_t bytes) noexcept {
    used += bytes;
    gauge.set(static_cast<int64_t>(used));
  }
};

State& state() {
  static auto* const instance = new State;  // never destroyed: callbacks come late
  return *instance;
}

}  // namespace

InFlight InFlight::reserve(size_t bytes) {
  State& state = transfer::state();
  {
    std::lock_guard lock(state.mutex);
    if (state.fits(bytes)) {
      state.take(bytes);
      return InFlight(bytes);
    }
  }
  state.waits.add();
  const base::ScopedTimer timed(state.seconds);
  const base::BlockingRegion region;
  std::unique_lock lock(state.mutex);
  state.freed.wait(lock, [&] { return state.fits(bytes); });
  state.take(bytes);
  return InFlight(bytes);
}

void InFlight::release() noexcept {
  if (bytes_ == 0) return;
  State& state = transfer::state();
  {
    std::lock_guard lock(state.mutex);
    state.used -= std::exchange(bytes_, 0);
    state.gauge.set(static_cast<int64_t>(state.used));
  }
  state.freed.notify_all();
}

void InFlight::set_limit(size_t bytes) noexcept {
  State& state = transfer::state();
  {
    std::lock_guard lock(state.mutex);
    state.limit = bytes;
  }
  state.freed.notify_all();
}

size_t InFlight::limit() noexcept {
  State& state = transfer::state();
  std::lock_guard lock(state.mutex);
  return state.limit;
}

}  // namespace torch_pjrt::transfer
