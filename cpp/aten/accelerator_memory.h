#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include "aten/copy_figures.h"

namespace torch_pjrt::aten {

// The allocator of a device of PyTorch's for storages that began as an alias of a PJRT buffer:
// pool memory for cpu, the accelerator's own elsewhere.
c10::Allocator& allocator_of(c10::Device device);

// Copies memory on one device: at once on cpu, else on the current stream.
void copy_memory(void* to, const void* from, size_t bytes, c10::Device device);
// The same to new memory of allocator_of(device).
c10::DataPtr private_copy(const void* data, size_t bytes, c10::Device device);

// allocator_of(device), whose clones are made by copy_memory and counted in `figures`. Lives as
// long as the process, as `figures` must.
c10::Allocator& counting_allocator(c10::Device device, CopyFigures& figures);

}  // namespace torch_pjrt::aten
