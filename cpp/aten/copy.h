#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "graph/executor.h"

namespace torch_pjrt::aten {

// Calls `use` with a cpu tensor that shows the elements of an xla tensor: their memory itself where
// the host can address it, else a copy. The tensor is ready, must only be read, and is valid only
// during the call.
void with_host_view(const at::Tensor& tensor, const std::function<void(const at::Tensor&)>& use);

// Copies between xla and any device, as dst.copy_(src) does: broadcasts and converts.
//
// A copy to the device does not wait for it; with `non_blocking` a device that the host cannot
// address may read a dense source later, which must not change until then. A copy to the host
// waits, unless `non_blocking`: then it may be made once the device is ready, and the target is
// complete after synchronize(), where its error comes too.
void copy_tensor(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);

// A new xla tensor with the elements of a strided tensor of another device, in one pass.
at::Tensor copy_to_new(const at::Tensor& src, c10::ScalarType dtype, graph::Executor& executor,
                       at::MemoryFormat format, bool non_blocking = false);

// A new tensor of the same device with another dtype (or the same: the value is shared, not
// copied), with preserved or the given strides.
at::Tensor cast(const at::Tensor& tensor, c10::ScalarType dtype,
                at::MemoryFormat format = at::MemoryFormat::Preserve);

}  // namespace torch_pjrt::aten
