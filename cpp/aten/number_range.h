#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

namespace torch_pjrt::aten {

// Throws CPU's error unless `value` can be stored as `dtype`: it must lie in its range (a negative
// integer may wrap into an unsigned dtype), and be real if the dtype is. XLA's own conversion keeps
// to the nearest value or takes the low bits, and says nothing.
void check_fits(const c10::Scalar& value, c10::ScalarType dtype);

// The same of an xla tensor of one element, whose error comes at the next read or sync.
void check_element_fits(const at::Tensor& value, c10::ScalarType dtype);

}  // namespace torch_pjrt::aten
