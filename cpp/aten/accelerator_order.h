#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>

#include "graph/executor.h"
#include "pjrt/buffer.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::aten {

// Order between a PJRT device and the streams of its companion (accelerators.h). By events on the
// streams where the plugin has PJRT's stream extension; else the host waits (BlockingRegion),
// counted as accelerator.host_waits. Any thread.

// Later work on `device`'s current stream finds the buffer's contents. An error of the computation
// that comes later than this call is raised by the next sync(), as accelerators do.
void order_stream_after(const graph::Executor& executor, const pjrt::Buffer& buffer,
                        c10::Device device);

// What Client::create_view is to be given as stream, so that the device finds what `device`'s
// current stream has written.
intptr_t order_device_after(const graph::Executor& executor, c10::Device device);

// Destroys the holder (on the reclaimer's thread) once the work is done that is now on `first` and
// on the current stream of its device: kernels do not keep the memory that they read. Never waits,
// never throws; what cannot be ordered is leaked.
void release_after_streams(std::unique_ptr<transfer::Holder> holder, c10::Stream first) noexcept;

}  // namespace torch_pjrt::aten
