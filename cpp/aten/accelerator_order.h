#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "graph/executor.h"
#include "pjrt/buffer.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::aten {

// Order between a PJRT device and the streams of its companion (accelerators.h). By events on the
// streams where the plugin has PJRT's stream extension; else the host waits (BlockingRegion),
// counted as accelerator.host_waits. Any thread.

// The accelerator's current stream on this thread, and the one that is current at first; empty
// where its backend has no such stream.
c10::Stream current_stream(c10::Device device);
std::optional<c10::Stream> default_stream(c10::Device device);

// PyTorch's stream for a stream of others: its id is the handle. Not for CUDA's own names of its
// default streams.
c10::Stream stream_of(intptr_t handle, c10::Device device);
// The platform's own handle of a stream; empty where this PyTorch or the backend does not tell.
std::optional<intptr_t> handle_of(const c10::Stream& stream);

// Later work on the stream finds the buffer's contents. An error of the computation that comes
// later than this call is raised by the next sync(), as accelerators do.
void order_stream_after(const graph::Executor& executor, const pjrt::Buffer& buffer,
                        const c10::Stream& stream);
// The same for a stream by its handle, of which PyTorch need not know.
void order_handle_after(const graph::Executor& executor, const pjrt::Buffer& buffer,
                        intptr_t handle);
// The same for all streams: the host waits, and it is counted.
void order_host_after(const pjrt::Buffer& buffer);
// As order_host_after(), for all that the device has to do.
void order_host_after(graph::Executor& executor);

// Later work on `device`'s current stream finds what producers have put before the stream that the
// device itself waits for (pjrt::stream_for_ready_events).
void order_stream_after_producers(const graph::Executor& executor, c10::Device device);

// What Client::create_view is to be given as stream, so that the device finds what `device`'s
// current stream has written.
intptr_t order_device_after(const graph::Executor& executor, c10::Device device);

// Destroys the holder (on the reclaimer's thread) once the work is done that is now on the streams,
// of which there is one at least, and on the current stream of the first one's device: kernels do
// not keep the memory that they read. Never waits, never throws; what cannot be ordered is leaked.
void release_after_streams(std::unique_ptr<transfer::Holder> holder,
                           std::span<const c10::Stream> streams) noexcept;

}  // namespace torch_pjrt::aten
