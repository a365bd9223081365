#pragma once

#include "aten/record.h"

// What only data can tell, where the cpu raises a RuntimeError: the device checks, and the error
// comes at the next read or sync. Nothing is checked when `torch_pjrt.config.check_indices` is off.
namespace torch_pjrt::aten {

// Raises when `condition`, whose emission makes a scalar i1 of one operand, holds for `tensor`. Its
// name is the whole message and has a ": " in it, which tells it from an operator's name.
void check_never(const Operator& condition, const at::Tensor& tensor);

// Like check_index_range without negative indices, but a RuntimeError with the name of `complaint`,
// whose emission is not used.
void check_index_bounds(const Operator& complaint, const at::Tensor& index, int64_t size);

}  // namespace torch_pjrt::aten
