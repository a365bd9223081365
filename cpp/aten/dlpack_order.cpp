#include "aten/dlpack_order.h"

#include <c10/core/Stream.h>

#include <utility>

#include "aten/accelerator_order.h"
#include "aten/accelerators.h"
#include "aten/stream_uses.h"
#include "pjrt/stream_extension.h"

namespace torch_pjrt::aten {
namespace {

using Kind = dlpack::RequestedStream::Kind;

// Destroys what it has after the streams' work.
class AfterStreams {
 public:
  AfterStreams(std::unique_ptr<transfer::Holder> holder, const void* data, const c10::Stream& first)
      : holder_(std::move(holder)), uses_(std::make_unique<StreamUses>(data, first)) {}
  AfterStreams(AfterStreams&& other) noexcept = default;
  AfterStreams& operator=(AfterStreams&&) = delete;
  ~AfterStreams() {
    if (uses_) release_after_streams(std::move(holder_), uses_->finish());
  }

 private:
  std::unique_ptr<transfer::Holder> holder_;
  std::unique_ptr<StreamUses> uses_;
};

// A stream of others may be gone when the array is dropped, and cannot be asked then.
c10::Stream first_stream(const Consumer& consumer, c10::Device device) {
  const c10::Stream current = current_stream(device);
  const dlpack::RequestedStream requested = consumer.requested();
  if (requested.kind == Kind::kNone || !consumer.stream) return current;
  const auto handle = handle_of(current);
  if (handle && dlpack::stream_number(consumer.device.device_type, *handle) == *consumer.stream) {
    return current;
  }
  return default_stream(device).value_or(current);
}

}  // namespace

void order_consumer_after(const graph::Executor& executor, const pjrt::Buffer& buffer,
                          const Consumer& consumer) {
  const dlpack::RequestedStream requested = consumer.requested();
  if (requested.kind == Kind::kNone) return;
  const auto companion = companion_of(executor);
  if (requested.kind == Kind::kHandle) {
    order_handle_after(executor, buffer, requested.handle);
  } else {
    const auto stream = companion ? default_stream(*companion) : std::nullopt;
    if (!stream) return order_host_after(buffer);
    order_stream_after(executor, buffer, *stream);
  }
  if (!consumer.stream && companion) {
    order_stream_after(executor, buffer, current_stream(*companion));
  }
}

std::unique_ptr<transfer::Holder> released_after_streams(std::unique_ptr<transfer::Holder> holder,
                                                         const graph::Executor& executor,
                                                         const Consumer& consumer,
                                                         const void* data) {
  const auto companion = companion_of(executor);
  if (!companion) return holder;
  return transfer::hold(AfterStreams(std::move(holder), data, first_stream(consumer, *companion)));
}

std::optional<int64_t> dlpack_stream(const graph::Executor& executor) {
  if (const auto stream = pjrt::stream_for_ready_events(*executor.client(), executor.device())) {
    return static_cast<int64_t>(*stream);
  }
  // The host will wait for this one.
  const auto companion = companion_of(executor);
  const auto handle = companion ? handle_of(current_stream(*companion)) : std::nullopt;
  const auto device = dlpack_accelerator(executor);
  if (!handle || !device) return std::nullopt;
  return dlpack::stream_number(device->device_type, *handle);
}

}  // namespace torch_pjrt::aten
