#include <ATen/Functions.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "aten/layout.h"
#include "aten/ops/zeta.h"
#include "graph/held_element.h"

// Functions of one number, and those of two that no other file has.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

bool is_floating(Operand x) { return pjrt::is_floating(x.element()); }
bool is_complex(Operand x) { return pjrt::is_complex(x.element()); }

// log(x) / log(base), exact at powers of the base, which float32 alone is not.
Operand log_to(Builder& b, Operand x, double base) {
  if (x.element() != ElementType::kF32) return b.divide(b.log(x), std::log(base));
  const Operand wide = b.convert(x, graph::held(ElementType::kF64));
  return b.convert(b.divide(b.log(wide), std::log(base)), ElementType::kF32);
}

// The compiler of one plugin (lammps-jax-pjrt-cpu 0.11.2) computes atan2 of a constant 1 wrongly in
// long arrays; this one is not constant.
Operand arc_tangent(Builder& b, Operand x) {
  if (is_complex(x)) return b.atan(x);
  return b.atan2(x, b.select(b.is_nan(x), x, b.ones_like(x)));
}

Operand sign_of(Builder& b, Operand x) {
  if (!is_floating(x)) return b.sign(x);
  // PyTorch's sign of NaN is 0.
  return b.select(b.is_nan(x), b.zeros_like(x), b.sign(x));
}

Operand complex_sign(Builder& b, Operand x) {
  if (!is_complex(x)) return sign_of(b, x);
  const Operand length = b.abs(x);
  const Operand unit = b.divide(x, b.complex(length, b.zeros_like(length)));
  return b.select(b.equal(length, 0), b.zeros_like(x), unit);
}

Operand sinc(Builder& b, Operand x) {
  const Operand angle = b.multiply(x, std::numbers::pi);
  return b.select(b.equal(x, 0), b.ones_like(x), b.divide(b.sine(angle), angle));
}

// Poles: -inf at +0, inf at -0, NaN at negative integers.
Operand digamma(Builder& b, Operand x) {
  return b.select(b.equal(x, 0), b.negate(b.divide(1, x)), b.digamma(x));
}

#define OPERATOR(id, name, ...)                                           \
  constexpr Operator id {                                                 \
    "aten::" name, map<[](Builder& b, Operand x) { return __VA_ARGS__; }> \
  }

OPERATOR(kNegate, "neg", b.negate(x));
OPERATOR(kExp, "exp", b.exponential(x));
OPERATOR(kExp2, "exp2", b.exponential(b.multiply(x, std::numbers::ln2)));
OPERATOR(kExpm1, "expm1", b.exponential_minus_one(x));
OPERATOR(kLog, "log", b.log(x));
OPERATOR(kLog2, "log2", log_to(b, x, 2));
OPERATOR(kLog10, "log10", log_to(b, x, 10));
OPERATOR(kLog1p, "log1p", b.log_plus_one(x));
OPERATOR(kSqrt, "sqrt", b.sqrt(x));
OPERATOR(kRsqrt, "rsqrt", b.divide(1, b.sqrt(x)));
OPERATOR(kSin, "sin", b.sine(x));
OPERATOR(kCos, "cos", b.cosine(x));
OPERATOR(kTan, "tan", b.tan(x));
OPERATOR(kAsin, "asin", b.asin(x));
OPERATOR(kAcos, "acos", b.acos(x));
OPERATOR(kAtan, "atan", arc_tangent(b, x));
OPERATOR(kSinh, "sinh", b.sinh(x));
OPERATOR(kCosh, "cosh", b.cosh(x));
OPERATOR(kTanh, "tanh", b.tanh(x));
OPERATOR(kAsinh, "asinh", b.asinh(x));
OPERATOR(kAcosh, "acosh", b.acosh(x));
OPERATOR(kAtanh, "atanh", b.atanh(x));
OPERATOR(kErf, "erf", b.erf(x));
OPERATOR(kErfc, "erfc", b.erfc(x));
OPERATOR(kErfinv, "erfinv", b.erf_inv(x));
OPERATOR(kLgamma, "lgamma", b.lgamma(x));
OPERATOR(kDigamma, "digamma", digamma(b, x));
OPERATOR(kSigmoid, "sigmoid", b.logistic(x));
OPERATOR(kReciprocal, "reciprocal", b.divide(1, x));
OPERATOR(kSinc, "sinc", sinc(b, x));
OPERATOR(kFloor, "floor", is_floating(x) ? b.floor(x) : x);
OPERATOR(kCeil, "ceil", is_floating(x) ? b.ceil(x) : x);
OPERATOR(kTrunc, "trunc", is_floating(x) ? b.trunc(x) : x);
OPERATOR(kRound, "round", is_floating(x) ? b.round_nearest_even(x) : x);
OPERATOR(kFrac, "frac", b.subtract(x, b.trunc(x)));
OPERATOR(kSign, "sign", sign_of(b, x));
OPERATOR(kSgn, "sgn", complex_sign(b, x));
OPERATOR(kBitwiseNot, "bitwise_not", b.bit_not(x));
OPERATOR(kConjugate, "conj_physical", b.conj(x));
OPERATOR(kEntropy, "special_entr",
         b.select(b.greater(x, 0), b.negate(b.multiply(x, b.log(x))),
                  b.select(b.equal(x, 0), b.zeros_like(x),
                           b.select(b.is_nan(x), x, b.filled_like(x, -INFINITY)))));
#undef OPERATOR

at::Tensor neg(const at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool,
              "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
              "invert a mask, use the `~` or `logical_not()` operator instead.");
  return unary<kNegate, kSame>(self);
}

at::Tensor& neg_(at::Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool,
              "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
              "invert a mask, use the `~` or `logical_not()` operator instead.");
  return unary_<kNegate, kSame>(self);
}

// What PyTorch has for numbers alone.
template <const Operator& op>
at::Tensor of_number(const at::Tensor& self) {
  check_implemented(self.scalar_type() != at::kBool, op, self.scalar_type());
  return unary<op, kSame>(self);
}
template <const Operator& op>
at::Tensor& of_number_(at::Tensor& self) {
  check_implemented(self.scalar_type() != at::kBool, op, self.scalar_type());
  return unary_<op, kSame>(self);
}

at::Tensor abs(const at::Tensor& self) {
  static constexpr Operator op{"aten::abs",
                               [](Emission& e) { e.result(e.builder().abs(e.operand(0))); }};
  check_implemented(self.scalar_type() != at::kBool, op, self.scalar_type());
  return Record(op).tensor(self).elementwise(real_type(self.scalar_type()), self.sizes());
}

at::Tensor& abs_(at::Tensor& self) {
  TORCH_CHECK(!self.is_complex(), "In-place abs is not supported for complex tensors.");
  self.copy_(aten::abs(self));
  return self;
}

at::Tensor angle(const at::Tensor& self) {
  static constexpr Operator op{
      "aten::angle", [](Emission& e) {
        StableHloBuilder& b = e.builder();
        if (is_complex(e.operand(0))) {
          return e.result(b.atan2(b.imag(e.operand(0)), b.real(e.operand(0))));
        }
        const Operand x = computed(e, 0);
        const Operand turned =
            b.select(b.less(x, 0), b.filled_like(x, std::numbers::pi), b.zeros_like(x));
        finish(e, b.select(b.is_nan(x), x, turned));
      }};
  return Record(op).tensor(self).elementwise(float_type(real_type(self.scalar_type())),
                                             self.sizes());
}

// Which way decimals count is structural.
at::Tensor round_decimals(const at::Tensor& self, int64_t decimals) {
  static constexpr Operator op{
      "aten::round.decimals", [](Emission& e) {
        StableHloBuilder& b = e.builder();
        const int64_t decimals = e.attributes.integer();
        const Operand x = computed(e, 0);
        const double scale = std::pow(10.0, std::abs(decimals));
        const Operand scaled = decimals < 0 ? b.divide(x, scale) : b.multiply(x, scale);
        const Operand rounded = b.round_nearest_even(scaled);
        finish(e, decimals < 0 ? b.multiply(rounded, scale) : b.divide(rounded, scale));
      }};
  if (!self.is_floating_point()) return unary<kRound, kSame>(self);
  return Record(op).tensor(self).attribute(decimals).elementwise(self.scalar_type(), self.sizes());
}

constexpr Operator kIsNan{"aten::isnan", test<[](Builder& b, Operand x) { return b.is_nan(x); }>};
constexpr Operator kIsInf{"aten::isinf", test<[](Builder& b, Operand x) { return b.is_inf(x); }>};
constexpr Operator kIsFinite{"aten::isfinite",
                             test<[](Builder& b, Operand x) { return b.is_finite(x); }>};
constexpr Operator kIsPositiveInf{"aten::isposinf", test<[](Builder& b, Operand x) {
                                    return is_floating(x) ? b.equal(x, INFINITY) : b.is_inf(x);
                                  }>};
constexpr Operator kIsNegativeInf{"aten::isneginf", test<[](Builder& b, Operand x) {
                                    return is_floating(x) ? b.equal(x, -INFINITY) : b.is_inf(x);
                                  }>};
constexpr Operator kLogicalNot{"aten::logical_not",
                               test<[](Builder& b, Operand x) { return b.equal(x, 0); }>};
constexpr Operator kSignBit{"aten::signbit", test<[](Builder& b, Operand x) {
                              if (!is_floating(x)) return b.less(x, 0);
                              const bool wide = x.element() == ElementType::kF64;
                              const ElementType bits = wide ? ElementType::kS64 : ElementType::kS32;
                              return b.less(b.bitcast_convert(x, bits), 0);
                            }>};

at::Tensor& logical_not_(at::Tensor& self) {
  self.copy_(unary_test<kLogicalNot>(self));
  return self;
}

at::Tensor nan_to_num(const at::Tensor& self, std::optional<double> nan,
                      std::optional<double> posinf, std::optional<double> neginf) {
  // attributes: whether each infinity was given; operands after x: nan, posinf, neginf
  static constexpr Operator op{
      "aten::nan_to_num", [](Emission& e) {
        StableHloBuilder& b = e.builder();
        const Operand x = e.operand(0);
        const auto filled = [&](size_t i) { return b.broadcast_to(e.operand(i), x.dimensions()); };
        const bool has_high = e.attributes.boolean(), has_low = e.attributes.boolean();
        const auto limit = [&](bool high) {
          const int digits = x.element() == ElementType::kF16    ? 11
                             : x.element() == ElementType::kBF16 ? 8
                             : x.element() == ElementType::kF32  ? 24
                                                                 : 53;
          const int exponent = x.element() == ElementType::kF16   ? 16
                               : x.element() == ElementType::kF64 ? 1024
                                                                  : 128;
          const double most = (2 - std::ldexp(1.0, 1 - digits)) * std::ldexp(1.0, exponent - 1);
          return b.filled_like(x, high ? most : -most);
        };
        const Operand high = has_high ? filled(2) : limit(true);
        const Operand low = has_low ? filled(3) : limit(false);
        Operand y = b.select(b.is_nan(x), filled(1), x);
        y = b.select(b.equal(x, INFINITY), high, y);
        e.result(b.select(b.equal(x, -INFINITY), low, y));
      }};
  const c10::ScalarType dtype = self.scalar_type();
  if (self.is_complex()) {
    return at::complex(aten::nan_to_num(at::real(self), nan, posinf, neginf),
                       aten::nan_to_num(at::imag(self), nan, posinf, neginf));
  }
  if (!self.is_floating_point()) return self.clone();
  return Record(op)
      .tensor(self)
      .number(nan.value_or(0), dtype)
      .number(posinf.value_or(0), dtype)
      .number(neginf.value_or(0), dtype)
      .attribute(posinf.has_value())
      .attribute(neginf.has_value())
      .result(dtype, self.sizes(), preserved_strides(self));
}

at::Tensor polygamma(int64_t n, const at::Tensor& self) {
  static constexpr Operator op{"aten::polygamma", [](Emission& e) {
                                 StableHloBuilder& b = e.builder();
                                 const int64_t n = e.attributes.integer();
                                 const Operand x = computed(e, 0);
                                 const double factor =
                                     (n % 2 ? 1 : -1) * std::tgamma(static_cast<double>(n) + 1);
                                 const Operand order = b.filled_like(x, static_cast<double>(n + 1));
                                 finish(e, b.multiply(zeta(b, order, x), factor));
                               }};
  TORCH_CHECK(n >= 0, "polygamma(n, x) does not support negative n.");
  if (n == 0) return unary<kDigamma, kFloating>(self);
  if (n == 1) return at::where(self.eq(INFINITY), 0, at::special_zeta(2, self));
  return Record(op).tensor(self).attribute(n).elementwise(float_type(self.scalar_type()),
                                                          self.sizes());
}

// operand 1: eps, if the attribute says so
at::Tensor logit(const at::Tensor& self, std::optional<double> eps) {
  static constexpr Operator op{"aten::logit", [](Emission& e) {
                                 StableHloBuilder& b = e.builder();
                                 Operand x = computed(e, 0);
                                 if (e.attributes.boolean()) {
                                   const Operand least = computed(e, 1);
                                   x = b.maximum(b.minimum(x, b.subtract(1, least)), least);
                                 }
                                 finish(e, b.log(b.divide(x, b.subtract(1, x))));
                               }};
  const c10::ScalarType dtype = float_type(self.scalar_type());
  Record record(op);
  record.tensor(self).attribute(eps.has_value());
  if (eps) record.number(*eps, at::toOpMathType(dtype));
  return record.elementwise(dtype, self.sizes());
}

#define ROW(name, op, rule)                  \
  m.impl(name, TORCH_FN((unary<op, rule>))); \
  m.impl(name "_", TORCH_FN((unary_<op, rule>)))

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("neg", TORCH_FN(neg));
  m.impl("neg_", TORCH_FN(neg_));
  m.impl("abs", TORCH_FN(abs));
  m.impl("abs_", TORCH_FN(abs_));
  m.impl("angle", TORCH_FN(angle));
  m.impl("round.decimals", TORCH_FN(round_decimals));
  m.impl("nan_to_num", TORCH_FN(nan_to_num));
  m.impl("polygamma", TORCH_FN(polygamma));
  m.impl("logit", TORCH_FN(logit));
  ROW("exp", kExp, kFloating);
  ROW("exp2", kExp2, kFloating);
  ROW("expm1", kExpm1, kFloating);
  ROW("log", kLog, kFloating);
  ROW("log2", kLog2, kFloating);
  ROW("log10", kLog10, kFloating);
  ROW("log1p", kLog1p, kFloating);
  ROW("sqrt", kSqrt, kFloating);
  ROW("rsqrt", kRsqrt, kFloating);
  ROW("sin", kSin, kFloating);
  ROW("cos", kCos, kFloating);
  ROW("tan", kTan, kFloating);
  ROW("asin", kAsin, kFloating);
  ROW("acos", kAcos, kFloating);
  ROW("atan", kAtan, kFloating);
  ROW("sinh", kSinh, kFloating);
  ROW("cosh", kCosh, kFloating);
  ROW("tanh", kTanh, kFloating);
  ROW("asinh", kAsinh, kFloating);
  ROW("acosh", kAcosh, kFloating);
  ROW("atanh", kAtanh, kFloating);
  ROW("erf", kErf, kFloating);
  ROW("erfc", kErfc, kFloating);
  ROW("erfinv", kErfinv, kFloating);
  ROW("lgamma", kLgamma, kFloating);
  ROW("digamma", kDigamma, kFloating);
  ROW("sigmoid", kSigmoid, kFloating);
  ROW("reciprocal", kReciprocal, kFloating);
  ROW("sinc", kSinc, kFloating);
  m.impl("floor", TORCH_FN(of_number<kFloor>));
  m.impl("floor_", TORCH_FN(of_number_<kFloor>));
  m.impl("ceil", TORCH_FN(of_number<kCeil>));
  m.impl("ceil_", TORCH_FN(of_number_<kCeil>));
  m.impl("trunc", TORCH_FN(of_number<kTrunc>));
  m.impl("trunc_", TORCH_FN(of_number_<kTrunc>));
  m.impl("round", TORCH_FN(of_number<kRound>));
  m.impl("round_", TORCH_FN(of_number_<kRound>));
  ROW("frac", kFrac, kSame);
  ROW("sign", kSign, kSame);
  ROW("sgn", kSgn, kSame);
  ROW("bitwise_not", kBitwiseNot, kSame);
  // conj_physical itself is PyTorch's composite, which differentiates; a row would hide that.
  m.impl("conj_physical_", TORCH_FN((unary_<kConjugate, kSame>)));
  m.impl("_conj_physical", TORCH_FN((unary<kConjugate, kSame>)));
  m.impl("special_entr", TORCH_FN((unary<kEntropy, kFloating>)));
  m.impl("isnan", TORCH_FN(unary_test<kIsNan>));
  m.impl("isinf", TORCH_FN(unary_test<kIsInf>));
  m.impl("isfinite", TORCH_FN(unary_test<kIsFinite>));
  m.impl("isposinf", TORCH_FN(unary_test<kIsPositiveInf>));
  m.impl("isneginf", TORCH_FN(unary_test<kIsNegativeInf>));
  m.impl("signbit", TORCH_FN(unary_test<kSignBit>));
  m.impl("logical_not", TORCH_FN(unary_test<kLogicalNot>));
  m.impl("logical_not_", TORCH_FN(logical_not_));
}

}  // namespace
}  // namespace torch_pjrt::aten
