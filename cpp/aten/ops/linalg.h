#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/LinearAlgebraUtils.h>

#include <algorithm>

#include "aten/record.h"

// What rows of matrix factorisations share.
namespace torch_pjrt::aten {

inline int64_t rows_of(const at::Tensor& a) { return a.size(-2); }
inline int64_t columns_of(const at::Tensor& a) { return a.size(-1); }
inline int64_t short_side(const at::Tensor& a) { return std::min(a.size(-2), a.size(-1)); }

// The sizes of a batch of matrices, without those of the matrices; then with other ones.
inline at::IntArrayRef batch_of(const at::Tensor& a) {
  return a.sizes().slice(0, static_cast<size_t>(a.dim()) - 2);
}
inline c10::DimVector batch_with(const at::Tensor& a, at::IntArrayRef sizes) {
  c10::DimVector all(batch_of(a));
  all.append(sizes.begin(), sizes.end());
  return all;
}

// Strides of matrices that lie column by column, as LAPACK leaves them.
inline c10::DimVector column_major(at::IntArrayRef sizes) {
  return at::native::batched_matrix_contiguous_strides(sizes, /*f_contig=*/true);
}

// A copy that lies column by column.
inline at::Tensor in_columns(const at::Tensor& a) { return at::native::cloneBatchedColumnMajor(a); }

// `a` without a lazy conjugate; throws for a dtype that LAPACK lacks.
inline at::Tensor check_lapack_dtype(const at::Tensor& a, const Operator& op) {
  const c10::ScalarType dtype = a.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kFloat || dtype == at::kDouble ||
                                  dtype == at::kComplexFloat || dtype == at::kComplexDouble,
                              "\"", op.name.substr(6), "\" not implemented for '", dtype, "'");
  return a.resolve_conj();
}

// x as one batch of matrices, [batch, rows, columns].
inline Operand as_batch(StableHloBuilder& b, Operand x) {
  int64_t batch = 1;
  for (int64_t i = 0; i + 2 < x.rank(); ++i) batch *= x.dimension(i);
  return b.reshape(x, {batch, x.dimension(-2), x.dimension(-1)});
}

inline Operand adjoint(StableHloBuilder& b, Operand x) {
  return b.conj(b.swap_dimensions(x, -2, -1));
}

// {row numbers, column numbers} of x's matrices, s32 and of x's sizes.
inline std::pair<Operand, Operand> places(StableHloBuilder& b, Operand x) {
  const graph::Type index{graph::ElementType::kS32, x.dimensions()};
  return {b.iota(index, x.rank() - 2), b.iota(index, x.rank() - 1)};
}

}  // namespace torch_pjrt::aten
