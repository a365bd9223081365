#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// One convolution as PyTorch describes it, with a value for every spatial dimension.
struct Convolution {
  graph::Dimensions stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;

  // Checks the arguments as PyTorch does; throws RuntimeError.
  Convolution(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
              at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
              at::IntArrayRef output_padding, int64_t groups);
  // As `add_to` wrote it.
  explicit Convolution(graph::AttributeReader& attributes);
  void add_to(Record& record) const;

  c10::DimVector output_sizes(const at::Tensor& input, const at::Tensor& weight) const;

  // The three emissions; half-precision results are rounded once, at the end.
  Operand forward(StableHloBuilder& builder, Operand input, Operand weight) const;
  Operand input_gradient(StableHloBuilder& builder, Operand grad, Operand weight,
                         const graph::Dimensions& input_sizes) const;
  Operand weight_gradient(StableHloBuilder& builder, Operand grad, Operand input,
                          const graph::Dimensions& weight_sizes) const;
};

}  // namespace torch_pjrt::aten
