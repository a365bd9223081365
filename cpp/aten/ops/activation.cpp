#include "aten/ops/activation.h"

#include <torch/library.h>

#include <numbers>

#include "aten/layout.h"

// Activations: see activation_backward.cpp for their gradients.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

Operand gelu_exact(Builder& b, Operand x) {
  const Operand half = b.multiply(x, 0.5);
  return b.multiply(half, b.add(b.erf(b.multiply(x, 1 / std::numbers::sqrt2)), 1));
}

Operand gelu_tanh(Builder& b, Operand x) {
  const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Operand cube = b.multiply(b.square(x), x);
  const Operand inner = b.multiply(b.add(x, b.multiply(cube, 0.044715)), scale);
  return b.multiply(b.multiply(x, 0.5), b.add(b.tanh(inner), 1));
}

Operand softplus_of(Builder& b, Operand x, Operand beta, Operand threshold) {
  const Operand scaled = b.multiply(x, beta);
  return b.select(b.greater(scaled, threshold), x,
                  b.divide(b.log_plus_one(b.exponential(scaled)), beta));
}

Operand mish(Builder& b, Operand x) {
  return b.multiply(x, b.tanh(b.log_plus_one(b.exponential(x))));
}

Operand elu_of(Builder& b, Operand x, Operand negative, Operand positive, Operand input) {
  const Operand low = b.multiply(b.exponential_minus_one(b.multiply(x, input)), negative);
  return b.select(b.less_equal(x, 0), low, b.multiply(x, positive));
}

Operand soft_shrink(Builder& b, Operand x, Operand width) {
  const Operand low = b.select(b.less(x, b.negate(width)), b.add(x, width), b.multiply(x, 0));
  return b.select(b.greater(x, width), b.subtract(x, width), low);
}

Operand hard_shrink(Builder& b, Operand x, Operand width) {
  const Operand within = b.bit_and(b.greater_equal(x, b.negate(width)), b.less_equal(x, width));
  return b.select(within, b.zeros_like(x), x);
}

Operand hard_sigmoid(Builder& b, Operand x) {
  return b.divide(b.minimum(b.maximum(b.add(x, 3), 0), 6), 6);
}

#define OPERATOR(id, name, arguments, ...)                   \
  constexpr Operator id {                                    \
    "aten::" name, map<[] arguments { return __VA_ARGS__; }> \
  }
OPERATOR(kRelu, "relu", (Builder & b, Operand x), b.maximum(x, 0));
OPERATOR(kThreshold, "threshold", (Builder & b, Operand x, Operand limit, Operand value),
         b.select(b.less_equal(x, limit), value, x));
OPERATOR(kLeakyRelu, "leaky_relu", (Builder & b, Operand x, Operand slope),
         b.select(b.greater(x, 0), x, b.multiply(x, slope)));
OPERATOR(kGelu, "gelu", (Builder & b, Operand x), gelu_exact(b, x));
OPERATOR(kGeluTanh, "gelu.tanh", (Builder & b, Operand x), gelu_tanh(b, x));
OPERATOR(kSilu, "silu", (Builder & b, Operand x), b.multiply(x, b.logistic(x)));
OPERATOR(kHardtanh, "hardtanh", (Builder & b, Operand x, Operand low, Operand high),
         b.minimum(b.maximum(x, low), high));
OPERATOR(kHardswish, "hardswish", (Builder & b, Operand x), b.multiply(x, hard_sigmoid(b, x)));
#undef OPERATOR
constexpr Operator kElu{"aten::elu", map<elu_of>};
constexpr Operator kMish{"aten::mish", map<mish>};
constexpr Operator kSoftplus{"aten::softplus", map<softplus_of>};
constexpr Operator kHardsigmoid{"aten::hardsigmoid", map<hard_sigmoid>};
constexpr Operator kSoftshrink{"aten::softshrink", map<soft_shrink>};
constexpr Operator kHardshrink{"aten::hardshrink", map<hard_shrink>};

template <const Operator& op>
at::Tensor plain(const at::Tensor& self) {
  return activation(op, self);
}
template <const Operator& op>
at::Tensor& plain_(at::Tensor& self) {
  return activation_(op, self);
}

template <const Operator& op>
at::Tensor with_number(const at::Tensor& self, const at::Scalar& number) {
  return activation(op, self, {number});
}
template <const Operator& op>
at::Tensor& with_number_(at::Tensor& self, const at::Scalar& number) {
  return activation_(op, self, {number});
}

at::Tensor relu(const at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  return unary<kRelu, kSame>(self);
}

at::Tensor& relu_(at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  return unary_<kRelu, kSame>(self);
}

at::Tensor threshold(const at::Tensor& self, const at::Scalar& limit, const at::Scalar& value) {
  return activation_record(kThreshold, self, {limit, value})
      .elementwise(self.scalar_type(), self.sizes());
}

const Operator& gelu_operator(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh",
              "approximate argument must be either none or tanh.");
  return approximate == "none" ? kGelu : kGeluTanh;
}

at::Tensor gelu(const at::Tensor& self, std::string_view approximate) {
  return activation(gelu_operator(approximate), self);
}
at::Tensor& gelu_(at::Tensor& self, std::string_view approximate) {
  return activation_(gelu_operator(approximate), self);
}

at::Tensor elu(const at::Tensor& self, const at::Scalar& alpha, const at::Scalar& scale,
               const at::Scalar& input_scale) {
  return activation(kElu, self, {alpha.toDouble() * scale.toDouble(), scale, input_scale});
}
at::Tensor& elu_(at::Tensor& self, const at::Scalar& alpha, const at::Scalar& scale,
                 const at::Scalar& input_scale) {
  return activation_(kElu, self, {alpha.toDouble() * scale.toDouble(), scale, input_scale});
}

at::Tensor softplus(const at::Tensor& self, const at::Scalar& beta, const at::Scalar& threshold) {
  return activation(kSoftplus, self, {beta, threshold});
}

void check_hardtanh(const at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
}

at::Tensor hardtanh(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max) {
  check_hardtanh(self);
  return activation_record(kHardtanh, self, {min, max})
      .elementwise(self.scalar_type(), self.sizes());
}
at::Tensor& hardtanh_(at::Tensor& self, const at::Scalar& min, const at::Scalar& max) {
  check_hardtanh(self);
  activation_record(kHardtanh, self, {min, max}).write_to(self);
  return self;
}

std::tuple<at::Tensor, at::Tensor> log_sigmoid(const at::Tensor& self) {
  static constexpr Operator op{"aten::log_sigmoid_forward", [](Emission& e) {
                                 Builder& b = e.builder();
                                 const Operand x = computed(e, 0);
                                 const Operand power = b.exponential(b.negate(b.abs(x)));
                                 finish(e, b.subtract(b.minimum(x, 0), b.log_plus_one(power)));
                                 e.result(1, b.convert(power, e.result_type(1).element));
                               }};
  check_floating(op, self);
  const Result result{self.scalar_type(), self.sizes()};
  auto both = Record(op).tensor(self).results({result, result});
  return {both[0], both[1]};
}

// attribute: the dimension that is halved
at::Tensor glu(const at::Tensor& self, int64_t dim) {
  static constexpr Operator op{"aten::glu", [](Emission& e) {
                                 Builder& b = e.builder();
                                 const int64_t dim = e.attributes.integer();
                                 const ElementType type = compute_type(e.result_type().element);
                                 const Operand x = b.convert(e.operand(0), type);
                                 const int64_t half = x.dimension(dim) / 2;
                                 const Operand gate = b.slice_dim(x, dim, half, 2 * half);
                                 finish(e,
                                        b.multiply(b.slice_dim(x, dim, 0, half), b.logistic(gate)));
                               }};
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.size(wrapped);
  TORCH_CHECK(size % 2 == 0, "Halving dimension must be even, but dimension ", wrapped, " is size ",
              size);
  check_floating(op, self);
  c10::DimVector sizes(self.sizes());
  sizes[wrapped] = size / 2;
  const auto strides = elementwise_strides({self.narrow(wrapped, 0, size / 2)}, sizes);
  return Record(op).tensor(self).attribute(wrapped).result(self.scalar_type(), sizes, strides);
}

at::Tensor prelu(const at::Tensor& self, const at::Tensor& weight) {
  return activation_record(kLeakyRelu, {self, weight})
      .elementwise(self.scalar_type(), broadcast_sizes(self, weight));
}

#define ROW(name, function)         \
  m.impl(name, TORCH_FN(function)); \
  m.impl(name "_", TORCH_FN(function##_))
#define ROW_OF(name, function, op)      \
  m.impl(name, TORCH_FN(function<op>)); \
  m.impl(name "_", TORCH_FN(function##_<op>))

void check_silu(const at::Tensor& self) {
  check_implemented(self.is_floating_point() || self.is_complex(), kSilu, self.scalar_type());
}

at::Tensor silu(const at::Tensor& self) {
  check_silu(self);
  return unary<kSilu, kSame>(self);
}

at::Tensor& silu_(at::Tensor& self) {
  check_silu(self);
  return unary_<kSilu, kSame>(self);
}

at::Tensor softshrink(const at::Tensor& self, const at::Scalar& lambda) {
  TORCH_CHECK(lambda.toDouble() >= 0, "lambda must be greater or equal to 0, but found to be ",
              lambda.toDouble(), ".");
  return with_number<kSoftshrink>(self, lambda);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  ROW("relu", relu);
  ROW("gelu", gelu);
  ROW("elu", elu);
  ROW("hardtanh", hardtanh);
  m.impl("silu", TORCH_FN(silu));
  m.impl("silu_", TORCH_FN(silu_));
  ROW_OF("mish", plain, kMish);
  ROW_OF("hardsigmoid", plain, kHardsigmoid);
  ROW_OF("hardswish", plain, kHardswish);
  ROW_OF("leaky_relu", with_number, kLeakyRelu);
  m.impl("softshrink", TORCH_FN(softshrink));
  m.impl("hardshrink", TORCH_FN(with_number<kHardshrink>));
  m.impl("threshold", TORCH_FN(threshold));
  m.impl("softplus", TORCH_FN(softplus));
  m.impl("log_sigmoid_forward", TORCH_FN(log_sigmoid));
  m.impl("glu", TORCH_FN(glu));
  m.impl("_prelu_kernel", TORCH_FN(prelu));
}

}  // namespace
}  // namespace torch_pjrt::aten
