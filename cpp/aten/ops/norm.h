#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// The dtype of saved statistics: f32 where a half-precision input has f32 parameters, else the
// input's. Undefined parameters do not count.
c10::ScalarType statistics_dtype(const at::Tensor& input, at::ArrayRef<at::Tensor> parameters);

// Refuses integers and bool with PyTorch's NotImplementedError.
void check_floating(const char* what, const at::Tensor& input);

// An operand in the type that statistics are computed in (f32 for half precisions).
Operand computed(StableHloBuilder& builder, Operand x);

struct Moments {
  Operand mean, rstd, variance;  // reduced dimensions are gone; variance is the biased one
};

// The sum over `dims`, the leading dimension last: on XLA CPU a reduction of an expression over the
// dimensions on both sides of the kept ones runs five times as long in one.
Operand sum(StableHloBuilder& builder, Operand x, const graph::Dimensions& dims);

// Over `dims` of x, in two passes.
Moments moments(StableHloBuilder& builder, Operand x, const graph::Dimensions& dims, double eps);

Operand mean(StableHloBuilder& builder, Operand x, const graph::Dimensions& dims);

// The tensor again with `strides`, if there are any.
at::Tensor restrided(const at::Tensor& contiguous, const std::optional<c10::DimVector>& strides);

// The strides of empty_like(input, memory_format=input.suggest_memory_format()).
std::optional<c10::DimVector> suggested_strides(const at::Tensor& input);

}  // namespace torch_pjrt::aten
