#include "base/trace_range.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <thread>
#include <utility>

#include "base/metrics.h"

namespace torch_pjrt::base {
namespace {

struct Recorder {
  std::mutex mutex;
  std::vector<TraceEvent> events;
};

Recorder& recorder() noexcept {
  static auto* const instance = new Recorder;  // never destroyed: callbacks come late
  return *instance;
}

std::atomic<bool> tracing{false};
std::atomic<int> expected_work{0};
std::atomic<const RangeHooks*> range_hooks{nullptr};

uint64_t this_thread() noexcept {
  thread_local const auto id = static_cast<uint64_t>(syscall(SYS_gettid));
  return id;
}

void add(const TraceEvent& event) noexcept {
  static Counter& dropped = counter("trace.dropped");
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  if (!tracing.load(std::memory_order_relaxed)) return;
  if (all.events.size() == kMostTraceEvents) return dropped.add();
  try {
    all.events.push_back(event);
  } catch (const std::bad_alloc&) {
    dropped.add();
  }
}

std::string microseconds(std::chrono::steady_clock::duration time) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  return std::to_string(Microseconds(time).count());
}

void append_text(std::string& json, std::string_view text) {
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  json += '"';
}

}  // namespace

void TraceRange::update_active() noexcept {
  active_ = tracing.load() || range_hooks.load() != nullptr;
}

void set_range_hooks(const RangeHooks* hooks) noexcept {
  range_hooks = hooks;
  TraceRange::update_active();
}

bool is_tracing() noexcept { return tracing.load(std::memory_order_relaxed); }

void start_tracing() {
  {
    Recorder& all = recorder();
    std::lock_guard lock(all.mutex);
    all.events.clear();
    all.events.reserve(4096);
    tracing = true;
  }
  TraceRange::update_active();
}

std::vector<TraceEvent> stop_tracing() {
  // A device tells of its end on a thread of its own, perhaps after those who waited for it.
  for (int i = 0; i < 1000 && expected_work.load() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<TraceEvent> events;
  {
    Recorder& all = recorder();
    std::lock_guard lock(all.mutex);
    tracing = false;
    events.swap(all.events);
  }
  TraceRange::update_active();
  return events;
}

void trace_work(const char* name, const char* track, std::chrono::steady_clock::time_point start,
                std::chrono::steady_clock::time_point end) noexcept {
  if (is_tracing()) add({name, nullptr, -1, 0, track, start, end});
  expected_work.fetch_sub(1);
}

void expect_work() noexcept { expected_work.fetch_add(1); }

void TraceRange::begin(const char* name) noexcept {
  name_ = name;
  if (const RangeHooks* hooks = range_hooks.load(std::memory_order_acquire)) {
    token_ = hooks->enter(name);
  }
  start_ = std::chrono::steady_clock::now();
}

void TraceRange::end() noexcept {
  if (is_tracing()) {
    add({name_, detail_, bytes_, this_thread(), nullptr, start_, std::chrono::steady_clock::now()});
  }
  if (token_) range_hooks.load(std::memory_order_acquire)->leave(token_);
}

std::string chrome_trace(const std::vector<TraceEvent>& events) {
  std::string json = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const std::string process = std::to_string(getpid());
  bool first = true;
  const auto begin = [&](std::string_view name, std::string_view phase, std::string_view thread) {
    json += first ? "\n" : ",\n";
    first = false;
    json += "{\"name\":";
    append_text(json, name);
    json.append(",\"ph\":\"").append(phase).append("\",\"pid\":").append(process);
    json.append(",\"tid\":").append(thread);
  };
  // Tracks have numbers below those of threads.
  std::vector<const char*> tracks;
  for (const TraceEvent& event : events) {
    std::string thread = std::to_string(event.thread);
    if (event.track) {
      size_t number = 0;
      while (number < tracks.size() && std::string_view(tracks[number]) != event.track) ++number;
      thread = std::to_string(number + 1);
      if (number == tracks.size()) {
        tracks.push_back(event.track);
        begin("thread_name", "M", thread);
        json += ",\"args\":{\"name\":";
        append_text(json, event.track);
        json += "}}";
      }
    }
    begin(event.name, "X", thread);
    json.append(",\"ts\":").append(microseconds(event.start.time_since_epoch()));
    json.append(",\"dur\":").append(microseconds(event.end - event.start));
    json += ",\"args\":{";
    if (event.bytes >= 0) json.append("\"bytes\":").append(std::to_string(event.bytes));
    if (event.detail) {
      if (event.bytes >= 0) json += ',';
      json += "\"path\":";
      append_text(json, event.detail);
    }
    json += "}}";
  }
  json += "\n]}\n";
  return json;
}

}  // namespace torch_pjrt::base
