#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include <optional>

#include "graph/executor.h"
#include "graph/node.h"
#include "transfer/host_to_device.h"

namespace torch_pjrt::aten {

// A cpu tensor as the transfers read it: where it lies, with the dimensions in the order in which
// the target lies in memory. Keeps only views of the tensor: it must outlive this.
class HostArray {
 public:
  // `target_strides`: dense, in any order of dimensions; empty for row-major.
  HostArray(const at::Tensor& tensor, at::IntArrayRef target_strides);

  transfer::HostSource source() const noexcept {
    return {
        data_, type_, {sizes_.data(), sizes_.size()}, {byte_strides_.data(), byte_strides_.size()}};
  }
  graph::Type type() const { return {type_, graph::Dimensions(sizes_.begin(), sizes_.end())}; }

 private:
  const void* data_;
  graph::ElementType type_;
  c10::DimVector sizes_;
  c10::DimVector byte_strides_;  // empty: row-major
};

// Whether the bytes can go as they are: same dtype, no conjugate or negative bit.
bool goes_as_it_is(const at::Tensor& tensor, c10::ScalarType dtype);

// Copies a cpu tensor with elements to the device: a value whose row-major order is the order of
// the elements in a tensor with `target_strides`. A cast (or the conjugate or negative bit) takes
// one pass of PyTorch's copy_, straight into the memory that goes to the device. With `may_hold`
// the device may read the tensor after the call; it is kept until then.
graph::Value upload(const at::Tensor& tensor, c10::ScalarType dtype, at::IntArrayRef target_strides,
                    const graph::Executor& executor, bool may_hold = false);

// A new xla tensor over what `upload` gave, or over a buffer of that order.
at::Tensor uploaded_tensor(graph::Executor& executor, graph::Value value, c10::ScalarType dtype,
                           at::IntArrayRef sizes, at::IntArrayRef target_strides);

}  // namespace torch_pjrt::aten
