#pragma once

#include <ATen/ops/result_type.h>
#include <c10/util/DimVector.h>

#include "aten/record.h"

namespace torch_pjrt::aten {

// A record of an operator of two tensors, of which either may be a 0-dim cpu tensor.
Record binary_record(const Operator& op, const at::Tensor& self, const at::Tensor& other);

// The common sizes of both, or PyTorch's error about them.
c10::DimVector broadcast_sizes(const at::Tensor& self, const at::Tensor& other);

// Checks as PyTorch does before an in-place operator: the common sizes and the dtype of the result
// (by default the promoted one) must fit `self`.
void check_in_place(const at::Tensor& self, const at::Tensor& other);
void check_in_place(const at::Tensor& self, const at::Tensor& other, c10::ScalarType result);

// Whether the operator in place is the one out of place, converted: the cpu computes in `result`.
inline bool is_converted(const at::Tensor& self, c10::ScalarType result) {
  return self.scalar_type() != result;
}

}  // namespace torch_pjrt::aten
