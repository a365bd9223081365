#include <ATen/TensorOperators.h>
#include <ATen/ops/_euclidean_dist.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <cmath>

#include "aten/record.h"

// Distances of all pairs of points, composed: XLA fuses the differences into the sums.
namespace torch_pjrt::aten {
namespace {

// From so many points on, PyTorch takes the product form where the mode leaves it open.
constexpr int64_t kManyPoints = 25;

// [..., p, 1, m] - [..., 1, r, m]
at::Tensor differences(const at::Tensor& x1, const at::Tensor& x2) {
  return x1.unsqueeze(-2) - x2.unsqueeze(-3);
}

// Over the last dimension. How many differ, where p is 0: of NaN that is NaN, unlike for norms.
at::Tensor length(const at::Tensor& difference, double p) {
  if (p == 0) return difference.abs().ceil().clamp_max(1).sum(-1);
  return at::linalg_vector_norm(difference, p, at::IntArrayRef{-1});
}

// The derivative of a p-norm `distance` (one dimension less) by each component of its vector.
at::Tensor slope(const at::Tensor& difference, const at::Tensor& distance, double p) {
  if (p == 1) return difference.sign();
  const at::Tensor length = distance.unsqueeze(-1), size = difference.abs();
  if (std::isinf(p)) return difference.sign() * size.eq(length);
  at::Tensor ratio =
      p == 2 ? difference / length : difference.sign() * size.pow(p - 1) / length.pow(p - 1);
  at::Tensor flat = length.eq(0);
  if (p < 1) flat = flat.logical_or(difference.eq(0));
  return ratio.masked_fill(flat, 0);
}

at::Tensor cdist_forward(const at::Tensor& x1, const at::Tensor& x2, double p,
                         std::optional<int64_t> compute_mode) {
  TORCH_CHECK(x1.dim() > 1 && x2.dim() > 1,
              "cdist only supports at least 2D tensors, X1 got: ", x1.dim(),
              "D, X2 got: ", x2.dim(), "D");
  TORCH_CHECK(at::isFloatingType(x1.scalar_type()) && at::isFloatingType(x2.scalar_type()),
              "cdist only supports floating-point dtypes, X1 got: ", x1.scalar_type(),
              ", X2 got: ", x2.scalar_type());
  TORCH_CHECK(x1.size(-1) == x2.size(-1),
              "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  const int64_t mode = compute_mode.value_or(0);
  TORCH_CHECK(mode >= 0 && mode <= 2, "possible modes: 0, 1, 2, but was: ", mode);
  const bool many = x1.size(-2) > kManyPoints || x2.size(-2) > kManyPoints;
  const bool empty = x1.numel() == 0 || x2.numel() == 0;
  if (p == 2 && !empty && (mode == 1 || (mode == 0 && many))) return at::_euclidean_dist(x1, x2);
  return length(differences(x1, x2), p);
}

at::Tensor cdist_backward(const at::Tensor& grad, const at::Tensor& x1, const at::Tensor& x2,
                          double p, const at::Tensor& distances) {
  if (p == 0) return at::zeros_like(x1);
  return (slope(differences(x1, x2), distances, p) * grad.unsqueeze(-1)).sum(-2);
}

// The numbers of the two points of each pair, [2, pairs].
at::Tensor pairs_of(const at::Tensor& self) {
  return at::triu_indices(self.size(0), self.size(0), 1, self.options().dtype(at::kLong));
}

at::Tensor pdist_forward(const at::Tensor& self, double p) {
  TORCH_CHECK(p >= 0, "pdist only supports non-negative p values");
  const at::Tensor pairs = pairs_of(self);
  const at::Tensor difference = self.index_select(0, pairs[0]) - self.index_select(0, pairs[1]);
  return length(difference, p);
}

at::Tensor pdist_backward(const at::Tensor& grad, const at::Tensor& self, double p,
                          const at::Tensor& distances) {
  if (p == 0) return at::zeros_like(self, at::MemoryFormat::Contiguous);
  const at::Tensor pairs = pairs_of(self);
  const at::Tensor difference = self.index_select(0, pairs[0]) - self.index_select(0, pairs[1]);
  const at::Tensor change = slope(difference, distances, p) * grad.unsqueeze(-1);
  return at::zeros_like(self, at::MemoryFormat::Contiguous)
      .index_add(0, pairs[0], change)
      .index_add(0, pairs[1], change, -1);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_cdist_forward", TORCH_FN(cdist_forward));
  m.impl("_cdist_backward", TORCH_FN(cdist_backward));
  m.impl("_pdist_forward", TORCH_FN(pdist_forward));
  m.impl("_pdist_backward", TORCH_FN(pdist_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
