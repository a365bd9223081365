#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include <optional>
#include <span>

namespace torch_pjrt::aten {

inline std::span<const int64_t> span_of(at::IntArrayRef values) {
  return {values.data(), values.size()};
}

// Whether they are those of a new tensor; those of dimensions of one element count, too.
bool has_default_strides(at::IntArrayRef sizes, at::IntArrayRef strides);

// Throws PyTorch's error unless an output that is there has the sizes that its operands have in
// common.
void check_output_sizes(const at::Tensor& output, at::IntArrayRef broadcast);

// The same of one operand, which is broadcast to the output.
void check_broadcasts_to(const at::Tensor& output, const at::Tensor& operand);

// The strides that PyTorch gives the output of an elementwise operator on these tensors (the
// permutation rule of TensorIterator); empty when they are contiguous, the common case.
// Undefined, 0-dim and cpu tensors do not order the dimensions. `beside_number`: PyTorch makes
// another 0-dim operand of a number.
std::optional<c10::DimVector> elementwise_strides(at::ArrayRef<at::Tensor> tensors,
                                                  at::IntArrayRef sizes,
                                                  bool beside_number = false);

// The strides of empty_like(tensor, memory_format=preserve_format); empty when contiguous.
std::optional<c10::DimVector> preserved_strides(const at::Tensor& tensor);

}  // namespace torch_pjrt::aten
