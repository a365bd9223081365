#pragma once

#include <ATen/dlpack.h>
#include <c10/core/Device.h>

#include <optional>

#include "graph/executor.h"

namespace torch_pjrt::aten {

// Which accelerators PyTorch and PJRT name differently: the only place that knows them.

// Whether PyTorch tensors of this device type may lie in the memory of a PJRT device.
bool is_accelerator(c10::DeviceType type) noexcept;

// The device of PyTorch in whose memory the executor's device keeps its buffers: cuda:0, say. The
// accelerator's driver is asked, once, on which of its devices an address of a buffer lies, so that
// equal numbers prove nothing and different ones do no harm. Empty where PyTorch has no such device
// or the address is not the driver's. The first call for an executor waits for a small transfer.
std::optional<c10::Device> companion_of(const graph::Executor& executor);

// The device's name in DLPack, where it has one: that of its companion, or, where this PyTorch has
// none, by the platform and the device's own number there.
std::optional<DLDevice> dlpack_accelerator(const graph::Executor& executor);

}  // namespace torch_pjrt::aten
