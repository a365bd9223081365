#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torch_pjrt::base {

// What was done when, for a trace that a person looks at. Names, details and tracks are literals,
// or texts that live as long as the process.

struct TraceEvent {
  const char* name;
  const char* detail;  // may be null
  int64_t bytes;       // below 0: none
  uint64_t thread;     // 0: not a thread's but the track's
  const char* track;   // for work on a device; null for a thread's
  std::chrono::steady_clock::time_point start, end;
};

// Ranges of another tool, such as a profiler. `enter` returns a token that `leave` gets on the same
// thread; null where there is nothing to leave. It costs nanoseconds while the tool is idle.
struct RangeHooks {
  void* (*enter)(const char* name) noexcept = nullptr;
  void (*leave)(void* token) noexcept = nullptr;
};

// Once, before the first range; `hooks` must outlive every use.
void set_range_hooks(const RangeHooks* hooks) noexcept;

// Starts to collect events, and forgets those of before. Collecting ends by itself, and counts
// trace.dropped, after kMostTraceEvents.
constexpr size_t kMostTraceEvents = size_t{1} << 20;
void start_tracing();
// Ends it and returns the events, in order of their ends. Waits up to a second for work that was
// expected and is not told of yet.
std::vector<TraceEvent> stop_tracing();
bool is_tracing() noexcept;

// The events as Chrome's trace format, which Perfetto reads.
std::string chrome_trace(const std::vector<TraceEvent>& events);

// For work that ends elsewhere, such as on a device: each call of the first is followed by one of
// the second, which adds an event if tracing is on and takes a leaf lock only.
void expect_work() noexcept;
void trace_work(const char* name, const char* track, std::chrono::steady_clock::time_point start,
                std::chrono::steady_clock::time_point end) noexcept;

// A range of the current thread, from its construction to its destruction. A load and a compare
// while nobody looks.
class TraceRange {
 public:
  explicit TraceRange(const char* name) noexcept {
    if (active_.load(std::memory_order_relaxed)) begin(name);
  }
  ~TraceRange() {
    if (name_) end();
  }
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

  void set_bytes(size_t bytes) noexcept { bytes_ = static_cast<int64_t>(bytes); }
  void set_detail(const char* detail) noexcept { detail_ = detail; }

 private:
  friend void set_range_hooks(const RangeHooks* hooks) noexcept;
  friend void start_tracing();
  friend std::vector<TraceEvent> stop_tracing();

  void begin(const char* name) noexcept;
  void end() noexcept;
  static void update_active() noexcept;

  static inline std::atomic<bool> active_{false};
  const char* name_ = nullptr;
  const char* detail_ = nullptr;
  int64_t bytes_ = -1;
  void* token_ = nullptr;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace torch_pjrt::base
