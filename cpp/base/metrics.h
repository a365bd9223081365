#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace torch_pjrt::base {

// Process-wide named figures. A reference that a lookup returns stays valid until the process ends,
// so hot code looks a name up once:
//   static Counter& calls = counter("execute.calls");
//   calls.add();
// Every function here may be called from any thread, also from a runtime's callback.

class Counter {
 public:
  void add(int64_t amount = 1) noexcept { value_.fetch_add(amount, std::memory_order_relaxed); }
  int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(int64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

struct TimerValue {
  int64_t count = 0;
  double seconds = 0;
};

class Timer {
 public:
  void add(std::chrono::nanoseconds elapsed) noexcept {
    count_.fetch_add(1, std::memory_order_relaxed);
    nanoseconds_.fetch_add(elapsed.count(), std::memory_order_relaxed);
  }
  TimerValue value() const noexcept {
    return {count_.load(std::memory_order_relaxed),
            static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9};
  }
  void clear() noexcept {
    count_.store(0, std::memory_order_relaxed);
    nanoseconds_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> count_{0};
  std::atomic<int64_t> nanoseconds_{0};
};

// Adds the time from its construction to its destruction to a timer.
class ScopedTimer {
 public:
  explicit ScopedTimer(Timer& timer) noexcept
      : timer_(timer), start_(std::chrono::steady_clock::now()) {}
  ~ScopedTimer() { timer_.add(std::chrono::steady_clock::now() - start_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  Timer& timer_;
  std::chrono::steady_clock::time_point start_;
};

// Each finds a figure by name or creates it at zero. A name belongs to one kind: asking for it as
// another throws std::logic_error. Counts events or bytes; `reset` zeroes it.
Counter& counter(std::string_view name);
// Tells a present amount, such as live buffers; `reset` leaves it alone.
Counter& gauge(std::string_view name);
Timer& timer(std::string_view name);

using MetricValue = std::variant<int64_t, TimerValue>;

// All figures by name, in order. Not one instant: each is read by itself.
std::map<std::string, MetricValue, std::less<>> snapshot();

// Zeroes counters and timers.
void reset() noexcept;

}  // namespace torch_pjrt::base
