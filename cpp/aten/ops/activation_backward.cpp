#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "aten/ops/activation.h"

// The gradients of activations.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

Operand gelu_slope(Builder& b, Operand x) {
  const Operand area = b.multiply(b.add(b.erf(b.multiply(x, 1 / std::numbers::sqrt2)), 1), 0.5);
  const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const Operand density = b.multiply(b.exponential(b.multiply(b.square(x), -0.5)), scale);
  return b.add(area, b.multiply(x, density));
}

Operand gelu_tanh_slope(Builder& b, Operand x) {
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Operand square = b.square(x);
  const Operand inner = b.multiply(b.multiply(x, scale), b.add(b.multiply(square, 0.044715), 1));
  const Operand t = b.tanh(inner);
  const Operand inner_slope = b.multiply(b.add(b.multiply(square, 3 * 0.044715), 1), scale);
  const Operand left = b.multiply(b.add(t, 1), 0.5);
  const Operand right =
      b.multiply(b.multiply(b.multiply(x, 0.5), b.subtract(1, b.square(t))), inner_slope);
  return b.add(left, right);
}

Operand silu_slope(Builder& b, Operand x) {
  const Operand s = b.logistic(x);
  return b.multiply(s, b.add(b.multiply(x, b.subtract(1, s)), 1));
}

Operand mish_slope(Builder& b, Operand x) {
  const Operand t = b.tanh(b.log_plus_one(b.exponential(x)));
  const Operand rest = b.multiply(b.multiply(x, b.logistic(x)), b.subtract(1, b.square(t)));
  return b.add(t, rest);
}

Operand within(Builder& b, Operand x, Operand width) {
  return b.bit_and(b.greater_equal(x, b.negate(width)), b.less_equal(x, width));
}

Operand elu_gradient(Builder& b, Operand grad, Operand x, Operand negative, Operand positive,
                     Operand input) {
  const Operand low = b.multiply(b.multiply(grad, b.multiply(input, negative)),
                                 b.exponential(b.multiply(x, input)));
  return b.select(b.less_equal(x, 0), low, b.multiply(grad, positive));
}

Operand elu_gradient_of_result(Builder& b, Operand grad, Operand y, Operand negative,
                               Operand positive, Operand input) {
  const Operand low = b.multiply(b.multiply(grad, input), b.add(y, negative));
  return b.select(b.less_equal(y, 0), low, b.multiply(grad, positive));
}

Operand softplus_gradient(Builder& b, Operand grad, Operand x, Operand beta, Operand threshold) {
  const Operand scaled = b.multiply(x, beta);
  return b.select(b.greater(scaled, threshold), grad, b.multiply(grad, b.logistic(scaled)));
}

Operand log_sigmoid_gradient(Builder& b, Operand grad, Operand x) {
  return b.multiply(grad, b.logistic(b.negate(x)));
}

Operand hardswish_gradient(Builder& b, Operand grad, Operand x) {
  const Operand middle = b.multiply(grad, b.add(b.divide(x, 3), 0.5));
  const Operand low = b.select(b.less_equal(x, -3), b.zeros_like(grad), middle);
  return b.select(b.greater_equal(x, 3), grad, low);
}

#define GRADIENT(id, name, ...)                                                         \
  constexpr Operator id {                                                               \
    "aten::" name, map<[](Builder& b, Operand grad, Operand x) { return __VA_ARGS__; }> \
  }
#define GRADIENT_OF_NUMBER(id, name, ...)                                                          \
  constexpr Operator id {                                                                          \
    "aten::" name, map<[](Builder& b, Operand grad, Operand x, Operand n) { return __VA_ARGS__; }> \
  }

GRADIENT(kReluGradient, "threshold_backward.zero",
         b.select(b.less_equal(x, 0), b.zeros_like(grad), grad));
GRADIENT_OF_NUMBER(kThresholdGradient, "threshold_backward",
                   b.select(b.less_equal(x, n), b.zeros_like(grad), grad));
GRADIENT_OF_NUMBER(kLeakyReluGradient, "leaky_relu_backward",
                   b.select(b.greater(x, 0), grad, b.multiply(grad, n)));
GRADIENT_OF_NUMBER(kShrinkGradient, "softshrink_backward",
                   b.select(within(b, x, n), b.zeros_like(grad), grad));
GRADIENT(kGeluGradient, "gelu_backward", b.multiply(grad, gelu_slope(b, x)));
GRADIENT(kGeluTanhGradient, "gelu_backward.tanh", b.multiply(grad, gelu_tanh_slope(b, x)));
GRADIENT(kSiluGradient, "silu_backward", b.multiply(grad, silu_slope(b, x)));
GRADIENT(kMishGradient, "mish_backward", b.multiply(grad, mish_slope(b, x)));
GRADIENT(kSigmoidGradient, "sigmoid_backward",
         b.multiply(grad, b.conj(b.multiply(b.subtract(1, x), x))));
GRADIENT(kTanhGradient, "tanh_backward", b.multiply(grad, b.conj(b.subtract(1, b.square(x)))));
GRADIENT(kHardsigmoidGradient, "hardsigmoid_backward",
         b.select(b.bit_and(b.greater(x, -3), b.less(x, 3)), b.divide(grad, 6),
                  b.zeros_like(grad)));
constexpr Operator kHardswishGradient{"aten::hardswish_backward", map<hardswish_gradient>};
constexpr Operator kLogSigmoidGradient{"aten::log_sigmoid_backward", map<log_sigmoid_gradient>};
constexpr Operator kEluGradient{"aten::elu_backward", map<elu_gradient>};
constexpr Operator kEluOfResultGradient{"aten::elu_backward.result", map<elu_gradient_of_result>};
constexpr Operator kSoftplusGradient{"aten::softplus_backward", map<softplus_gradient>};
constexpr Operator kHardtanhGradient{
    "aten::hardtanh_backward",
    map<[](Builder& b, Operand grad, Operand x, Operand low, Operand high) {
      return b.select(b.bit_or(b.less_equal(x, low), b.greater_equal(x, high)), b.zeros_like(grad),
                      grad);
    }>};

template <const Operator& op>
at::Tensor gradient_of(const at::Tensor& grad, const at::Tensor& self) {
  return gradient(op, grad, self);
}

template <const Operator& op>
at::Tensor gradient_with_number(const at::Tensor& grad, const at::Tensor& self,
                                const at::Scalar& number) {
  return gradient(op, grad, self, {number});
}

at::Tensor threshold_backward(const at::Tensor& grad, const at::Tensor& self,
                              const at::Scalar& threshold) {
  if (threshold.toDouble() == 0) return gradient(kReluGradient, grad, self);
  return gradient(kThresholdGradient, grad, self, {threshold});
}

at::Tensor leaky_relu_backward(const at::Tensor& grad, const at::Tensor& self,
                               const at::Scalar& slope, bool is_result) {
  TORCH_CHECK(!is_result || slope.toDouble() >= 0,
              "In-place leakyReLu backward calculation is triggered with a negative slope which is "
              "not supported. This is caused by calling in-place forward function with a negative "
              "slope, please call out-of-place version instead.");
  return gradient(kLeakyReluGradient, grad, self, {slope});
}

at::Tensor gelu_backward(const at::Tensor& grad, const at::Tensor& self,
                         std::string_view approximate) {
  return gradient(approximate == "tanh" ? kGeluTanhGradient : kGeluGradient, grad, self);
}

at::Tensor elu_backward(const at::Tensor& grad, const at::Scalar& alpha, const at::Scalar& scale,
                        const at::Scalar& input_scale, bool is_result, const at::Tensor& self) {
  TORCH_CHECK(!is_result || alpha.toDouble() >= 0,
              "In-place elu backward calculation is triggered with a negative slope which is not "
              "supported. This is caused by calling in-place forward function with a negative "
              "slope, please call out-of-place version instead.");
  return gradient(is_result ? kEluOfResultGradient : kEluGradient, grad, self,
                  {alpha.toDouble() * scale.toDouble(), scale, input_scale});
}

at::Tensor softplus_backward(const at::Tensor& grad, const at::Tensor& self, const at::Scalar& beta,
                             const at::Scalar& threshold) {
  return gradient(kSoftplusGradient, grad, self, {beta, threshold});
}

at::Tensor hardtanh_backward(const at::Tensor& grad, const at::Tensor& self, const at::Scalar& min,
                             const at::Scalar& max) {
  return gradient(kHardtanhGradient, grad, self, {min, max});
}

at::Tensor log_sigmoid_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor&) {
  return gradient(kLogSigmoidGradient, grad, self);
}

at::Tensor logit_backward(const at::Tensor& grad, const at::Tensor& self,
                          std::optional<double> eps) {
  static constexpr Operator op{
      "aten::logit_backward", [](Emission& e) {
        Builder& b = e.builder();
        const bool has_eps = e.attributes.boolean();
        const Operand grad = computed(e, 0), x = computed(e, 1);
        const Operand low = has_eps ? computed(e, 2) : b.zeros_like(x);
        const Operand outside = b.bit_or(b.less(x, low), b.greater(x, b.subtract(1, low)));
        const Operand inside = b.divide(grad, b.multiply(x, b.subtract(1, x)));
        finish(e, b.select(outside, b.filled_like(x, has_eps ? 0.0 : NAN), inside));
      }};
  Record record(op);
  record.tensor(grad).tensor(self).attribute(eps.has_value());
  if (eps) record.number(*eps, at::toOpMathType(self.scalar_type()));
  return record.elementwise(self.scalar_type(), self.sizes());
}

// attribute: the halved dimension
at::Tensor glu_backward(const at::Tensor& grad, const at::Tensor& self, int64_t dim) {
  static constexpr Operator op{
      "aten::glu_backward", [](Emission& e) {
        Builder& b = e.builder();
        const int64_t dim = e.attributes.integer();
        const ElementType type = compute_type(e.result_type().element);
        const Operand grad = b.convert(e.operand(0), type), x = b.convert(e.operand(1), type);
        const int64_t half = x.dimension(dim) / 2;
        const Operand s = b.logistic(b.slice_dim(x, dim, half, 2 * half));
        const Operand first = b.multiply(s, grad);
        const Operand second =
            b.multiply(b.multiply(b.subtract(1, s), first), b.slice_dim(x, dim, 0, half));
        finish(e, b.concatenate({first, second}, dim));
      }};
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  return Record(op)
      .tensor(grad)
      .tensor(self)
      .attribute(at::maybe_wrap_dim(dim, self.dim()))
      .result(self.scalar_type(), self.sizes());
}

std::tuple<at::Tensor, at::Tensor> prelu_backward(const at::Tensor& grad, const at::Tensor& self,
                                                  const at::Tensor& weight) {
  static constexpr Operator op{
      "aten::_prelu_kernel_backward", [](Emission& e) {
        Builder& b = e.builder();
        const Operand grad = computed(e, 0), x = computed(e, 1);
        const Operand positive = b.greater(x, 0);
        finish(e, b.select(positive, grad, b.multiply(computed(e, 2), grad)));
        const Operand slope = b.select(positive, b.zeros_like(grad), b.multiply(x, grad));
        e.result(1, b.convert(slope, e.result_type(1).element));
      }};
  const Result result{self.scalar_type(), self.sizes()};
  auto both = Record(op).tensor(grad).tensor(self).tensor(weight).results({result, result});
  return {both[0], both[1]};
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("threshold_backward", TORCH_FN(threshold_backward));
  m.impl("leaky_relu_backward", TORCH_FN(leaky_relu_backward));
  m.impl("gelu_backward", TORCH_FN(gelu_backward));
  m.impl("silu_backward", TORCH_FN(gradient_of<kSiluGradient>));
  m.impl("mish_backward", TORCH_FN(gradient_of<kMishGradient>));
  m.impl("sigmoid_backward", TORCH_FN(gradient_of<kSigmoidGradient>));
  m.impl("tanh_backward", TORCH_FN(gradient_of<kTanhGradient>));
  m.impl("hardsigmoid_backward", TORCH_FN(gradient_of<kHardsigmoidGradient>));
  m.impl("hardswish_backward", TORCH_FN(gradient_of<kHardswishGradient>));
  m.impl("softshrink_backward", TORCH_FN(gradient_with_number<kShrinkGradient>));
  m.impl("hardshrink_backward", TORCH_FN(gradient_with_number<kShrinkGradient>));
  m.impl("elu_backward", TORCH_FN(elu_backward));
  m.impl("softplus_backward", TORCH_FN(softplus_backward));
  m.impl("hardtanh_backward", TORCH_FN(hardtanh_backward));
  m.impl("log_sigmoid_backward", TORCH_FN(log_sigmoid_backward));
  m.impl("logit_backward", TORCH_FN(logit_backward));
  m.impl("glu_backward", TORCH_FN(glu_backward));
  m.impl("_prelu_kernel_backward", TORCH_FN(prelu_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
