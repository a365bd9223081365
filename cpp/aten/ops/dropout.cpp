#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "aten/generator.h"
#include "aten/ops/random_bits.h"

// Dropout as one operator, where PyTorch asks for it by name; torch.dropout itself is composed of
// bernoulli_ and multiplications.
namespace torch_pjrt::aten {
namespace {

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const at::TensorOptions boolean = input.options().dtype(at::kBool);
  if (input.numel() == 0) return {input, at::empty_like(input, boolean)};
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, boolean)};
  if (p == 1) {
    const at::Tensor mask = at::zeros_like(input, boolean);
    return {input.mul(mask), mask};  // keeps NaN and the sign of zero
  }
  const at::Tensor mask = at::empty_like(input, boolean).bernoulli_(1 - p);
  return {input.mul(mask).mul_(1 / (1 - p)), mask};
}

at::Tensor native_dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double scale) {
  return grad.mul(mask).mul(scale);  // not in place: integers become floating
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("native_dropout_backward", TORCH_FN(native_dropout_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
