#pragma once

#include <ATen/core/Tensor.h>

#include "graph/executor.h"
#include "graph/node.h"

namespace torch_pjrt::aten {

// The bridge between tensors and recorded values. All functions may be called from any thread.

// Whether a tensor can be an operand on `executor` as a host number: 0-dim on the cpu.
inline bool is_host_number(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.dim() == 0;
}

// The executor of the first xla tensor among `tensors`; throws if there is none.
graph::Executor& executor_of(at::ArrayRef<at::Tensor> tensors);
graph::Executor& executor_of(const at::Tensor& tensor);

// The value of an xla tensor: an array with the tensor's sizes and dtype. Throws when the tensor is
// not strided or lives on another device than `executor`'s.
graph::Value value_of(const at::Tensor& tensor, const graph::Executor& executor);
graph::Value value_of(const at::Tensor& tensor);

// A host number as a 0-dim value of `dtype`. It becomes a parameter of the program.
graph::Value number(const at::Scalar& scalar, c10::ScalarType dtype);

// The value of an xla tensor, or of a 0-dim cpu tensor as a host number of its own dtype.
graph::Value operand_of(const at::Tensor& tensor, const graph::Executor& executor);

// A new tensor with this value, contiguous, or with dense `strides` in any order. Its dtype must
// have the value's element type. Tells the executor that an operator was recorded.
at::Tensor make_tensor(graph::Executor& executor, graph::Value value, c10::ScalarType dtype);
at::Tensor make_tensor(graph::Executor& executor, graph::Value value, c10::ScalarType dtype,
                       at::IntArrayRef strides);

// Overwrites the elements of `tensor`, through its view, with a value of its sizes and dtype.
void write(const at::Tensor& tensor, graph::Value value);

// The value of the whole storage as elements of `element`, row-major in storage order.
graph::Value contents_of(const at::Tensor& tensor);

// Whether the tensor covers its storage exactly, without gaps, in row-major order.
bool is_whole_storage(const at::Tensor& tensor);

}  // namespace torch_pjrt::aten
