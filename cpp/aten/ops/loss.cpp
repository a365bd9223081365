#include <ATen/core/Reduction.h>
#include <ATen/ops/l1_loss.h>
#include <torch/library.h>

#include <cmath>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/ops/elementwise.h"

// Elementwise losses and their gradients.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// Sum, mean, or what it is, with the dtype of the losses; sums are made in the compute type.
void reduce(Emission& e, Operand losses, int64_t reduction) {
  Builder& b = e.builder();
  if (reduction == at::Reduction::None) return finish(e, losses);
  Operand sum = b.reduce(losses, graph::Reducer::kAdd, graph::all_dims(losses));
  if (reduction == at::Reduction::Mean) {
    sum = b.divide(sum, static_cast<double>(losses.type().element_count()));
  }
  finish(e, sum);
}

// Operand i in the compute type, broadcast to `dimensions`.
Operand full(Emission& e, size_t i, std::span<const int64_t> dimensions) {
  Builder& b = e.builder();
  return b.broadcast_to(b.convert(e.operand(i), compute_type(e.result_type().element)),
                        graph::Ints(dimensions));
}

// attributes: dimensions of the losses, reduction; operands: self, target, number (optional)
template <auto kBody>
void emit_loss(Emission& e) {
  Builder& b = e.builder();
  const auto dimensions = e.attributes.list();
  const int64_t reduction = e.attributes.integer();
  const Operand x = full(e, 0, dimensions), target = full(e, 1, dimensions);
  if constexpr (std::is_invocable_v<decltype(kBody), Builder&, Operand, Operand>) {
    reduce(e, kBody(b, x, target), reduction);
  } else {
    reduce(e, kBody(b, x, target, full(e, 2, dimensions)), reduction);
  }
}

// operands: gradient, self, target, number (optional); the body gives the derivative
template <auto kBody>
void emit_slope(Emission& e) {
  Builder& b = e.builder();
  const auto dimensions = e.attributes.list();
  const int64_t reduction = e.attributes.integer();
  const Operand x = full(e, 1, dimensions), target = full(e, 2, dimensions);
  Operand slope;
  if constexpr (std::is_invocable_v<decltype(kBody), Builder&, Operand, Operand>) {
    slope = kBody(b, x, target);
  } else {
    slope = kBody(b, x, target, full(e, 3, dimensions));
  }
  if (reduction == at::Reduction::Mean) {
    slope = b.divide(slope, static_cast<double>(slope.type().element_count()));
  }
  finish(e, b.multiply(slope, full(e, 0, dimensions)));
}

Operand smooth_l1(Builder& b, Operand x, Operand target, Operand beta) {
  const Operand d = b.abs(b.subtract(x, target));
  return b.select(b.less(d, beta), b.divide(b.multiply(b.square(d), 0.5), beta),
                  b.subtract(d, b.multiply(beta, 0.5)));
}

Operand smooth_l1_slope(Builder& b, Operand x, Operand target, Operand beta) {
  const Operand d = b.subtract(x, target);
  return b.select(b.less(b.abs(d), beta), b.divide(d, beta), b.sign(d));
}

Operand huber(Builder& b, Operand x, Operand target, Operand delta) {
  const Operand d = b.abs(b.subtract(x, target));
  return b.select(b.less(d, delta), b.multiply(b.square(d), 0.5),
                  b.multiply(delta, b.subtract(d, b.multiply(delta, 0.5))));
}

Operand huber_slope(Builder& b, Operand x, Operand target, Operand delta) {
  const Operand d = b.subtract(x, target);
  return b.maximum(b.minimum(d, delta), b.negate(delta));
}

constexpr Operator kMse{"aten::mse_loss", emit_loss<[](Builder& b, Operand x, Operand target) {
                          return b.square(b.subtract(x, target));
                        }>};
constexpr Operator kMseBackward{"aten::mse_loss_backward",
                                emit_slope<[](Builder& b, Operand x, Operand target) {
                                  return b.multiply(b.subtract(x, target), 2);
                                }>};
constexpr Operator kSmoothL1{"aten::smooth_l1_loss", emit_loss<smooth_l1>};
constexpr Operator kSmoothL1Backward{"aten::smooth_l1_loss_backward", emit_slope<smooth_l1_slope>};
constexpr Operator kHuber{"aten::huber_loss", emit_loss<huber>};
constexpr Operator kHuberBackward{"aten::huber_loss_backward", emit_slope<huber_slope>};

Operand cross_entropy(Builder& b, Operand x, Operand target) {
  const Operand yes = b.maximum(b.log(x), -100);
  const Operand no = b.maximum(b.log_plus_one(b.negate(x)), -100);
  return b.subtract(b.multiply(b.subtract(target, 1), no), b.multiply(target, yes));
}

Operand cross_entropy_slope(Builder& b, Operand x, Operand target) {
  const Operand below = b.maximum(b.multiply(b.subtract(1, x), x), 1e-12);
  return b.divide(b.subtract(x, target), below);
}

constexpr Operator kCrossEntropy{
    "aten::binary_cross_entropy",
    emit_loss<[](Builder& b, Operand x, Operand y) { return cross_entropy(b, x, y); }>};
constexpr Operator kCrossEntropyWeighted{"aten::binary_cross_entropy.weight",
                                         emit_loss<[](Builder& b, Operand x, Operand y, Operand w) {
                                           return b.multiply(cross_entropy(b, x, y), w);
                                         }>};
constexpr Operator kCrossEntropyBackward{
    "aten::binary_cross_entropy_backward",
    emit_slope<[](Builder& b, Operand x, Operand y) { return cross_entropy_slope(b, x, y); }>};
constexpr Operator kCrossEntropyWeightedBackward{
    "aten::binary_cross_entropy_backward.weight",
    emit_slope<[](Builder& b, Operand x, Operand y, Operand w) {
      return b.multiply(cross_entropy_slope(b, x, y), w);
    }>};

void outside_unit_interval(Emission& e) {
  Builder& b = e.builder();
  const Operand x = e.operand(0);
  const Operand inside = b.bit_and(b.greater_equal(x, 0), b.less_equal(x, 1));  // not so for NaN
  e.result(any(b, b.bit_not(inside)));
}
constexpr Operator kInputOutside{
    "binary_cross_entropy: all elements of input should be between 0 and 1; got another; apply "
    "sigmoid first",
    outside_unit_interval};
constexpr Operator kTargetOutside{
    "binary_cross_entropy: all elements of target should be between 0 and 1; got another; check "
    "the target",
    outside_unit_interval};

Record loss_record(const Operator& op, at::TensorList tensors, std::optional<double> number,
                   at::IntArrayRef sizes, int64_t reduction, c10::ScalarType dtype) {
  Record record(op);
  record.on(executor_of(tensors)).tensors(tensors);
  if (number) record.number(*number, at::toOpMathType(dtype));
  record.attribute(sizes).attribute(reduction);
  return record;
}

at::Tensor loss(const Operator& op, const at::Tensor& self, const at::Tensor& target,
                int64_t reduction, std::optional<double> number = std::nullopt) {
  const c10::DimVector sizes = broadcast_sizes(self, target);
  const c10::ScalarType dtype = at::result_type(self, target);
  Record record = loss_record(op, {self, target}, number, sizes, reduction, dtype);
  if (reduction == at::Reduction::None) return record.elementwise(dtype, sizes);
  return record.result(dtype, {});
}

at::Tensor loss_backward(const Operator& op, const at::Tensor& grad, const at::Tensor& self,
                         const at::Tensor& target, int64_t reduction,
                         std::optional<double> number = std::nullopt) {
  const c10::DimVector sizes = broadcast_sizes(self, target);
  const c10::ScalarType dtype = at::result_type(self, target);
  return loss_record(op, {grad, self, target}, number, sizes, reduction, dtype)
      .elementwise(dtype, sizes);
}

at::Tensor mse_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  return loss(kMse, self, target, reduction);
}

at::Tensor mse_loss_backward(const at::Tensor& grad, const at::Tensor& self,
                             const at::Tensor& target, int64_t reduction) {
  return loss_backward(kMseBackward, grad, self, target, reduction);
}

at::Tensor smooth_l1_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                          double beta) {
  TORCH_CHECK(beta >= 0, "smooth_l1_loss does not support negative values for beta.");
  if (beta == 0) return at::l1_loss(self, target, reduction);
  return loss(kSmoothL1, self, target, reduction, beta);
}

at::Tensor smooth_l1_loss_backward(const at::Tensor& grad, const at::Tensor& self,
                                   const at::Tensor& target, int64_t reduction, double beta) {
  return loss_backward(kSmoothL1Backward, grad, self, target, reduction, beta);
}

at::Tensor huber_loss(const at::Tensor& self, const at::Tensor& target, int64_t reduction,
                      double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  return loss(kHuber, self, target, reduction, delta);
}

at::Tensor huber_loss_backward(const at::Tensor& grad, const at::Tensor& self,
                               const at::Tensor& target, int64_t reduction, double delta) {
  return loss_backward(kHuberBackward, grad, self, target, reduction, delta);
}

at::Tensor binary_cross_entropy(const at::Tensor& self, const at::Tensor& target,
                                const std::optional<at::Tensor>& weight, int64_t reduction) {
  check_never(kInputOutside, self);
  check_never(kTargetOutside, target);
  std::vector<at::Tensor> tensors{self, target};
  const bool weighted = weight && weight->defined();
  if (weighted) tensors.push_back(*weight);
  Record record = loss_record(weighted ? kCrossEntropyWeighted : kCrossEntropy, tensors, {},
                              self.sizes(), reduction, self.scalar_type());
  if (reduction == at::Reduction::None) {
    return record.elementwise(self.scalar_type(), self.sizes());
  }
  return record.result(self.scalar_type(), {});
}

at::Tensor binary_cross_entropy_backward(const at::Tensor& grad, const at::Tensor& self,
                                         const at::Tensor& target,
                                         const std::optional<at::Tensor>& weight,
                                         int64_t reduction) {
  std::vector<at::Tensor> tensors{grad, self, target};
  const bool weighted = weight && weight->defined();
  if (weighted) tensors.push_back(*weight);
  return loss_record(weighted ? kCrossEntropyWeightedBackward : kCrossEntropyBackward, tensors, {},
                     self.sizes(), reduction, self.scalar_type())
      .elementwise(self.scalar_type(), self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("mse_loss", TORCH_FN(mse_loss));
  m.impl("mse_loss_backward", TORCH_FN(mse_loss_backward));
  m.impl("smooth_l1_loss", TORCH_FN(smooth_l1_loss));
  m.impl("smooth_l1_loss_backward", TORCH_FN(smooth_l1_loss_backward));
  m.impl("huber_loss", TORCH_FN(huber_loss));
  m.impl("huber_loss_backward", TORCH_FN(huber_loss_backward));
  m.impl("binary_cross_entropy", TORCH_FN(binary_cross_entropy));
  m.impl("binary_cross_entropy_backward", TORCH_FN(binary_cross_entropy_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
