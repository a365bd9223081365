#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/type.h"

namespace torch_pjrt::aten {

// What becomes of a dtype that the device lacks.
enum class DtypePolicy {
  kNarrow,  // float64, int64, uint64 and complex128 are held as their 32-bit kin
  kStrict,  // they are refused
};

// The dtype in which the device holds elements of `dtype`: itself, or the narrower one. Which it is
// was found once per client, by trying. Creates the client for a dtype that may be narrowed. Throws
// TypeError where the device has neither, or the policy refuses.
c10::ScalarType held_dtype(c10::ScalarType dtype);

inline bool is_narrowed(c10::ScalarType dtype) { return held_dtype(dtype) != dtype; }

// The element type of what a storage holds: another than the dtype's for complex32 alone, which
// PJRT lacks. Its elements are ui32 words of two float16 there, and complex<f32> where they are
// computed with.
graph::ElementType stored_type(c10::ScalarType dtype);

// Whether any dtype is narrowed here. Never creates the client.
bool narrows_any() noexcept;

// Each dtype that may be narrowed, with what holds it (the policy narrow); creates the client.
std::vector<std::pair<c10::ScalarType, c10::ScalarType>> held_dtypes();

// Of the process; a change counts for tensors that are made later.
void set_dtype_policy(DtypePolicy policy);
DtypePolicy dtype_policy() noexcept;

// Whether a cast to a narrower dtype, on the way to the device, refuses values that it cannot hold.
void set_check_narrowing(bool check) noexcept;
bool check_narrowing() noexcept;

// Throws OverflowError-like ValueError where `tensor` (cpu) has a value that `held` cannot hold: an
// integer out of its range, or a finite number that would become infinite.
void check_fits(const at::Tensor& tensor, c10::ScalarType held);

}  // namespace torch_pjrt::aten
