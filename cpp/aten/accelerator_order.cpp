#include "aten/accelerator_order.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/blocking_region.h"
#include "base/metrics.h"
#include "graph/shared_buffer.h"
#include "pjrt/stream_extension.h"

namespace torch_pjrt::aten {
namespace {

base::Counter& host_waits() {
  static base::Counter& figure = base::counter("accelerator.host_waits");
  return figure;
}

using Guard = c10::impl::DeviceGuardImplInterface;

template <typename AnyGuard>
std::optional<intptr_t> native_handle(const AnyGuard& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.getStreamNativeHandle(stream); }) {
    try {
      return reinterpret_cast<intptr_t>(guard.getStreamNativeHandle(stream));
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
}

void make_wait(const c10::Stream& waiting, const c10::Stream& stream) {
  c10::Event event(stream.device_type());
  event.record(stream);
  event.block(waiting);
}

bool wait_by_stream(const graph::Executor& executor, const pjrt::Buffer& buffer,
                    const c10::Stream& stream) {
  const pjrt::Client& client = *executor.client();
  if (const auto handle = handle_of(stream)) {
    return pjrt::wait_on_stream(client, buffer, *handle);
  }
  const auto between = pjrt::stream_for_ready_events(client, executor.device());
  if (!between || !pjrt::wait_on_stream(client, buffer, *between)) return false;
  make_wait(stream, stream_of(*between, stream.device()));
  return true;
}

// `wait` says whether it has ordered the waiting stream by itself.
template <typename Wait>
void order_after(const pjrt::Buffer& buffer, Wait wait) {
  const pjrt::Event ready = buffer.ready_event();
  if (ready.is_ready()) return ready.await("read a tensor");  // throws its error
  if (wait()) return;
  host_waits().add();
  ready.await("read a tensor");
}

struct Release {
  std::vector<c10::Event> events;
  std::unique_ptr<transfer::Holder> holder;

  bool is_due() const {
    for (const c10::Event& event : events) {
      if (!event.query()) return false;
    }
    return true;
  }
};

// Those that wait for streams. Asked again and again, since a wait for an event may keep a core
// busy, and one stream should not hold up what waits for another.
struct Releases {
  std::mutex mutex;
  std::condition_variable added;
  std::vector<Release> waiting;
  bool has_thread = false;
};

Releases& releases() {
  static auto* const instance = new Releases;  // never destroyed: its thread uses it
  return *instance;
}

void give_up(Release release) noexcept {
  static_cast<void>(release.holder.release());
  static_cast<void>(new std::vector<c10::Event>(std::move(release.events)));
}

void work() noexcept {
  Releases& all = releases();
  for (;;) {
    std::vector<Release> asked;
    {
      std::unique_lock lock(all.mutex);
      all.added.wait(lock, [&] { return !all.waiting.empty(); });
      asked.swap(all.waiting);
    }
    std::vector<Release> later;
    for (Release& release : asked) {
      try {
        if (release.is_due()) {
          transfer::Reclaimer::instance().reclaim(std::move(release.holder));
        } else {
          later.push_back(std::move(release));
        }
      } catch (const std::exception&) {
        give_up(std::move(release));  // the accelerator failed, or is no more
      }
    }
    if (later.empty()) continue;
    {
      const std::lock_guard lock(all.mutex);
      for (Release& release : later) all.waiting.push_back(std::move(release));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

std::optional<c10::Stream> default_stream(c10::Device device) {
  try {
    return c10::impl::VirtualGuardImpl(device.type()).getDefaultStream(device);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

c10::Stream stream_of(intptr_t handle, c10::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(handle));
}

std::optional<intptr_t> handle_of(const c10::Stream& stream) {
  const Guard& guard = *c10::impl::getDeviceGuardImpl(stream.device_type());
  return native_handle(guard, stream);
}

void order_stream_after(const graph::Executor& executor, const pjrt::Buffer& buffer,
                        const c10::Stream& stream) {
  order_after(buffer, [&] { return wait_by_stream(executor, buffer, stream); });
}

void order_handle_after(const graph::Executor& executor, const pjrt::Buffer& buffer,
                        intptr_t handle) {
  order_after(buffer, [&] { return pjrt::wait_on_stream(*executor.client(), buffer, handle); });
}

void order_host_after(const pjrt::Buffer& buffer) {
  order_after(buffer, [] { return false; });
}

void order_host_after(graph::Executor& executor) {
  host_waits().add();
  executor.synchronize();
}

void order_stream_after_producers(const graph::Executor& executor, c10::Device device) {
  const auto ready = pjrt::stream_for_ready_events(*executor.client(), executor.device());
  if (ready) make_wait(current_stream(device), stream_of(*ready, device));
}

intptr_t order_device_after(const graph::Executor& executor, c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream stream = guard.getStream(device);
  if (const auto ready = pjrt::stream_for_ready_events(*executor.client(), executor.device())) {
    make_wait(stream_of(*ready, device), stream);
    return *ready;
  }
  host_waits().add();
  const base::BlockingRegion region;
  guard.synchronizeStream(stream);
  return 0;
}

void release_after_streams(std::unique_ptr<transfer::Holder> holder,
                           std::span<const c10::Stream> streams) noexcept {
  if (graph::SharedBuffer::leaks()) return static_cast<void>(holder.release());
  Release release;
  release.holder = std::move(holder);
  try {
    const auto record = [&](const c10::Stream& stream) {
      release.events.emplace_back(stream.device_type()).record(stream);
    };
    std::for_each(streams.begin(), streams.end(), record);
    const c10::Stream current = current_stream(streams.front().device());
    if (std::find(streams.begin(), streams.end(), current) == streams.end()) record(current);
    Releases& all = releases();
    const std::lock_guard lock(all.mutex);
    if (!all.has_thread) {
      std::thread(work).detach();
      all.has_thread = true;
    }
    all.waiting.push_back(std::move(release));
    all.added.notify_one();
  } catch (const std::exception&) {
    give_up(std::move(release));
  }
}

}  // namespace torch_pjrt::aten
