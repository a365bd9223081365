#pragma once

#include <ATen/dlpack.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "dlpack/requested_stream.h"
#include "graph/executor.h"
#include "pjrt/buffer.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::aten {

// Order between a PJRT device and those who share an accelerator's memory by DLPack. By streams
// where the plugin has PJRT's stream extension; else the host waits, counted as
// accelerator.host_waits.

// Whose streams use an exported array.
struct Consumer {
  DLDevice device;
  std::optional<int64_t> stream;  // of __dlpack__; empty for None

  dlpack::RequestedStream requested() const noexcept {
    return dlpack::requested_stream(device.device_type, stream);
  }
};

// Later work on the stream that the consumer names finds the buffer's contents. None stands for the
// device's default stream and PyTorch's current one: PyTorch as a consumer names no stream but on
// CUDA and ROCm.
void order_consumer_after(const graph::Executor& executor, const pjrt::Buffer& buffer,
                          const Consumer& consumer);

// A holder whose destruction destroys `holder` later: when PyTorch's streams have done what they
// have to do by then, the one that the consumer named, if it is PyTorch's, and the one that is then
// current, and those that were recorded for a tensor of PyTorch's at `data`. Consumers do not wait
// for their streams when they drop an array. The same holder where PyTorch does not have the
// accelerator.
std::unique_ptr<transfer::Holder> released_after_streams(std::unique_ptr<transfer::Holder> holder,
                                                         const graph::Executor& executor,
                                                         const Consumer& consumer,
                                                         const void* data);

// What a producer is to be given as stream, so that import_by_dlpack finds its memory ready; empty
// where there is none.
std::optional<int64_t> dlpack_stream(const graph::Executor& executor);

}  // namespace torch_pjrt::aten
