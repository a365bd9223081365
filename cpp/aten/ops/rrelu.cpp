#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <torch/library.h>

#include "aten/record.h"

// Leaky ReLU with slopes drawn at random in training.
namespace torch_pjrt::aten {
namespace {

at::Tensor rrelu(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                 const at::Scalar& upper, bool training, std::optional<at::Generator> generator) {
  const double low = lower.toDouble(), high = upper.toDouble();
  if (!training) return at::leaky_relu(self, (low + high) / 2);
  TORCH_CHECK(low <= high, "Lower bound should be less than or equal to the upper bound");
  const at::Tensor slopes = at::empty_like(self).uniform_(low, high, generator);
  noise.copy_(slopes.masked_fill(self.gt(0), 1));
  return self * noise;
}

at::Tensor& rrelu_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                   const at::Scalar& upper, bool training, std::optional<at::Generator> generator) {
  return self.copy_(rrelu(self, noise, lower, upper, training, generator));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("rrelu_with_noise", TORCH_FN(rrelu));
  m.impl("rrelu_with_noise_", TORCH_FN(rrelu_));
}

}  // namespace
}  // namespace torch_pjrt::aten
