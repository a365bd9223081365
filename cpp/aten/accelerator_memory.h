#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

namespace torch_pjrt::aten {

// The allocator of a device of PyTorch's for storages that began as an alias of a PJRT buffer:
// pool memory for cpu, the accelerator's own elsewhere.
c10::Allocator& allocator_of(c10::Device device);

// A copy of memory on the same device: at once on cpu, else on the current stream.
c10::DataPtr private_copy(const void* data, size_t bytes, c10::Device device);

}  // namespace torch_pjrt::aten
