#pragma once

#include <ATen/core/List.h>
#include <c10/util/DimVector.h>

#include <vector>

#include "aten/record.h"

// What the operators that take index tensors share.
namespace torch_pjrt::aten {

// self[indices] with every mask made into index tensors.
struct IndexPlan {
  std::vector<at::Tensor> indices;  // integer tensors on self's device
  c10::DimVector dims;              // the dimension of self that each of them indexes, ascending
  c10::DimVector index_sizes;       // what they broadcast to
  c10::DimVector sizes;             // of self[indices]
  int64_t position = 0;             // where index_sizes stand in `sizes`
};

// Checks as PyTorch does, and asks the device to check the range of every index for `op`. A mask
// becomes indices through `nonzero`, which reads the device.
IndexPlan plan_index(const Operator& op, const at::Tensor& self,
                     const c10::List<std::optional<at::Tensor>>& indices);

// Adds the indices as operands and the plan as attributes.
void record_plan(Record& record, const IndexPlan& plan);

// What the emission reads back.
struct EmittedIndex {
  Operand vectors;  // [index sizes..., indexed dimensions], none negative
  graph::Dimensions dims;
  graph::Dimensions window;  // the dimensions of self[indices] that are not indexed
};
EmittedIndex emit_index(Emission& e, size_t first_operand, Operand self);

// An index tensor as operand: converted to a type that holds every position in `size`.
Operand narrowed(StableHloBuilder& b, Operand index, int64_t size);

// The index of index_select, index_add and their kin: a list of int32 or int64, or one of them.
void check_index_list(std::string_view name, const at::Tensor& index);

// Checks that self can take, or combine with, one slice of `source` along dim for each index.
void check_slices(std::string_view name, const at::Tensor& self, int64_t dim,
                  const at::Tensor& index, const at::Tensor& source);

// Whether an expanded tensor shows some element several times; a few in-place operators may write
// through one all the same.
bool repeats_elements(const at::Tensor& self);
// The view of self that shows each of its elements once.
at::Tensor without_repeats(const at::Tensor& self);

inline bool is_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

}  // namespace torch_pjrt::aten
