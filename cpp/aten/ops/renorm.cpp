#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/library.h>

#include "aten/ops/indexing.h"

// Slices, and rows of an embedding, cut to a greatest norm.
namespace torch_pjrt::aten {
namespace {

// What to multiply slices of these norms with.
at::Tensor cut(const at::Tensor& norms, double most) {
  return (most / (norms + 1e-7)).masked_fill(norms.le(most).logical_or(norms.isnan()), 1);
}

at::Tensor renorm(const at::Tensor& self, const at::Scalar& p, int64_t dim,
                  const at::Scalar& most) {
  TORCH_CHECK(!p.isComplex(), "renorm: p must be real-valued");
  TORCH_CHECK(p.toDouble() > 0, "renorm: non-positive-norm not supported");
  TORCH_CHECK(!most.isComplex(), "renorm: maxnorm must be real-valued");
  TORCH_CHECK(most.toDouble() >= 0, "renorm: expected maxnorm to be >= 0 but got ",
              most.toDouble());
  TORCH_CHECK(self.dim() > 1, "renorm: input needs at least 2 dimensions, got ", self.dim(),
              " dimensions");
  const int64_t kept = at::maybe_wrap_dim(dim, self.dim());
  c10::DimVector others;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != kept) others.push_back(d);
  }
  std::optional<c10::ScalarType> sums;
  if (c10::isReducedFloatingType(self.scalar_type())) sums = at::kFloat;
  const at::Tensor norms = at::linalg_vector_norm(self, p.toDouble(), others, true, sums);
  return (self * cut(norms, most.toDouble())).to(self.scalar_type()).contiguous();
}

at::Tensor& embedding_renorm_(at::Tensor& self, const at::Tensor& indices, double most, double p) {
  TORCH_CHECK(self.dim() == 2, "embedding_renorm_: Expected 2-dimensional self, got ", self.dim());
  check_index_list("embedding_renorm_", indices.reshape(-1));
  const at::Tensor index = indices.reshape(-1).to(at::kLong);
  const at::Tensor rows = self.index_select(0, index);
  const at::Tensor norms = at::linalg_vector_norm(rows, p, at::IntArrayRef{1}, true);
  return self.index_copy_(0, index, (rows * cut(norms, most)).to(self.scalar_type()));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("renorm", TORCH_FN(renorm));
  m.impl("embedding_renorm_", TORCH_FN(embedding_renorm_));
}

}  // namespace
}  // namespace torch_pjrt::aten
