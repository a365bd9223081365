#pragma once

#include <ATen/WrapDimUtilsMulti.h>
#include <c10/util/DimVector.h>

#include "aten/ops/elementwise.h"

// What reductions share.
namespace torch_pjrt::aten {

// The dimensions to reduce, wrapped and sorted; none named means all. Empty for a 0-dim tensor.
c10::DimVector reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims);

// What is left of the sizes.
c10::DimVector reduced_sizes(const at::Tensor& self, at::IntArrayRef dims, bool keepdim);

// How many elements make one of the result.
int64_t reduced_count(const at::Tensor& self, at::IntArrayRef dims);

// Throws as PyTorch does when an operator without identity reduces nothing to something.
void check_nonempty(const Operator& op, const at::Tensor& self, at::IntArrayRef dims);

// A record of one tensor with the attributes dims and keepdim.
Record reduction_record(const Operator& op, const at::Tensor& self, at::IntArrayRef dims,
                        bool keepdim);

// An emission's operand 0 in the compute type of its result, and the two attributes.
struct Reduction {
  Operand x;
  graph::Dimensions dims;
  bool keepdim;

  explicit Reduction(Emission& e, ElementType element);
  explicit Reduction(Emission& e) : Reduction(e, compute_type(e.result_type().element)) {}
};

}  // namespace torch_pjrt::aten
