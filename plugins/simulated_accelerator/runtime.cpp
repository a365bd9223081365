// The streams and events of abi.h.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "abi.h"

#define SIMULATED_EXPORT __attribute__((visibility("default")))

namespace {

using Clock = std::chrono::steady_clock;

// No user-space address has bit 55: x86-64 faults on it, and so does arm64, which ignores the bits
// above. The device's number lies below it.
constexpr uintptr_t kDeviceBit = uintptr_t{1} << 55;
constexpr int kNumberShift = 52;
constexpr uintptr_t kNumberMask = uintptr_t{7} << kNumberShift;
constexpr int32_t kDevices = 2;

std::atomic<int64_t> delay_milliseconds{0};
std::atomic<bool> leaves_out_stream{false};
std::atomic<bool> leaves_out_host{false};

// One recording of an event.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;

  void finish() {
    {
      const std::lock_guard lock(mutex);
      done = true;
    }
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return done; });
  }
  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};
using MarkPtr = std::shared_ptr<Mark>;

}  // namespace

struct SimulatedStream {
  struct Work {
    Clock::time_point earliest;
    std::function<void()> run;
  };

  SimulatedStream() {
    std::thread([this] { work(); }).detach();
  }

  void add(std::function<void()> run, int64_t milliseconds) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back({Clock::now() + std::chrono::milliseconds(milliseconds), std::move(run)});
    }
    came.notify_one();
  }

  void work() {
    for (;;) {
      Work next;
      {
        std::unique_lock lock(mutex);
        came.wait(lock, [this] { return !queue.empty(); });
        next = std::move(queue.front());
        queue.pop_front();
      }
      std::this_thread::sleep_until(next.earliest);
      next.run();
    }
  }

  std::mutex mutex;
  std::condition_variable came;
  std::deque<Work> queue;
};

struct SimulatedEvent {
  std::mutex mutex;
  MarkPtr mark;  // the last recording; null before the first

  MarkPtr last() {
    const std::lock_guard lock(mutex);
    return mark;
  }
  MarkPtr renew() {
    const std::lock_guard lock(mutex);
    mark = std::make_shared<Mark>();
    return mark;
  }
};

namespace {

void* device_address(void* real, int32_t device) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(real) | kDeviceBit |
                                 static_cast<uintptr_t>(device) << kNumberShift);
}

void* real_address(void* address, int32_t* device) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  if ((bits & kDeviceBit) == 0) return nullptr;
  if (device != nullptr) *device = static_cast<int32_t>((bits & kNumberMask) >> kNumberShift);
  return reinterpret_cast<void*>(bits & ~(kDeviceBit | kNumberMask));
}

void record(SimulatedEvent* event, SimulatedStream* stream) {
  stream->add([mark = event->renew()] { mark->finish(); }, 0);
}

void wait(SimulatedStream* stream, SimulatedEvent* event) {
  MarkPtr mark = event->last();
  if (mark == nullptr || leaves_out_stream) return;
  stream->add([mark = std::move(mark)] { mark->wait(); }, 0);
}

int32_t is_done(SimulatedEvent* event) {
  const MarkPtr mark = event->last();
  return mark == nullptr || leaves_out_host || mark->is_done() ? 1 : 0;
}

void synchronize(SimulatedEvent* event) {
  const MarkPtr mark = event->last();
  if (mark != nullptr && !leaves_out_host) mark->wait();
}

constexpr SimulatedAccelerator kTable{
    SIMULATED_ACCELERATOR_ABI,
    kDevices,
    "simulated",
    &device_address,
    &real_address,
    [] { return new SimulatedStream; },
    [](SimulatedStream* stream, void (*work)(void*), void* argument) {
      stream->add([work, argument] { work(argument); }, delay_milliseconds);
    },
    [] { return new SimulatedEvent; },
    [](SimulatedEvent* event) { delete event; },
    &record,
    [](SimulatedEvent* event) { event->renew(); },
    [](SimulatedEvent* event) { event->last()->finish(); },
    &wait,
    &is_done,
    &synchronize,
};

}  // namespace

extern "C" SIMULATED_EXPORT const SimulatedAccelerator* simulated_accelerator() { return &kTable; }

extern "C" SIMULATED_EXPORT void simulated_accelerator_set_delay(int64_t milliseconds) {
  delay_milliseconds = milliseconds;
}

extern "C" SIMULATED_EXPORT void simulated_accelerator_leave_out(const char* waits) {
  leaves_out_stream = std::strcmp(waits, "stream") == 0;
  leaves_out_host = std::strcmp(waits, "host") == 0;
}
