#pragma once

#include <ATen/core/Tensor.h>

#include "graph/node.h"

namespace torch_pjrt::aten {

// The value of a tensor's storage as its cell has it, where it covers the storage: the bytes are
// the same for every dtype that views them, so that no program is needed.
graph::Value storage_value(const at::Tensor& tensor);

// A cpu tensor that shares the memory of an xla tensor copy-on-write (see shared_storage.h), as
// `.cpu()` returns it: ready, with the tensor's strides, and offset 0 in a storage of just its
// bytes. Waits (BlockingRegion) until the tensor is computed.
//
// Undefined when the tensor has to be copied; a pair of counters export.copied.<reason> says why:
//   device  the host cannot address the device's memory
//   pending it is not computed yet, and `non_blocking` asks not to wait
//   dtype   the device holds the dtype in fewer bits (see dtype_policy.h)
//   view    a view with gaps, or of less than half of its buffer, which the alias would pin whole
//   layout  another memory format or a resolved conjugate or negative is asked for
//   alias   others may write the memory (an explicit alias by DLPack)
at::Tensor export_to_cpu(const at::Tensor& tensor, at::MemoryFormat format, bool non_blocking);

// The same as a tensor of the accelerator in whose memory the xla tensor lies (its companion, see
// accelerators.h): not waited for by the host, but by the accelerator's current stream. What has to
// be copied, counted as above, is copied on the device, and the copy shared. Undefined where
// `device` is another accelerator, and for reason `dtype`.
at::Tensor export_to_accelerator(const at::Tensor& tensor, c10::Device device,
                                 at::MemoryFormat format);

// The same elements in a buffer of their own, once it is executed.
graph::Value unshared(const graph::Value& value);

}  // namespace torch_pjrt::aten
