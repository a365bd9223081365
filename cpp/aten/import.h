#pragma once

#include <ATen/core/Tensor.h>

#include "graph/executor.h"
#include "transfer/host_to_device.h"

namespace torch_pjrt::aten {

// The elements of a cpu tensor as a value that shares their memory copy-on-write; empty where they
// have to be copied. `source` describes the tensor in the order in which the value shall have them;
// its dtype and bits are those that the device shall have.
//
// The memory of a device that `.cpu()` shared always goes back to it so. Other memory only where
// zero copy is wanted (see zero_copy.h); a pair of counters import.copied.<reason> says why not:
//   device      the device does not compute in host memory
//   view        a view with gaps, or of less than half of its storage, which one write would copy
//   misaligned  the device needs 64 bytes of alignment
//   storage     PyTorch cannot tell when the memory is written: NumPy's, shared between processes,
//               another library's or pinned
graph::Value import_from_cpu(const at::Tensor& tensor, const transfer::HostSource& source,
                             const graph::Executor& executor);

// The elements of a tensor of the accelerator in whose memory the executor's device computes (its
// companion), as held for `dtype`, in the order of a tensor with `target_strides` (see upload.h).
// Where zero copy is wanted, and for memory that the device
// shared, it shares the memory copy-on-write; else PyTorch copies it on the accelerator, and the
// device takes the copy over; a pair of counters import.copied.<reason> says why, as above. In
// neither case does the host wait. Empty where the tensor is on another device, or has no elements.
graph::Value import_from_accelerator(const at::Tensor& tensor, c10::ScalarType dtype,
                                     at::IntArrayRef target_strides,
                                     const graph::Executor& executor);

}  // namespace torch_pjrt::aten
