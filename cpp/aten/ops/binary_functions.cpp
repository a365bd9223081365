#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "aten/ops/log_add.h"
#include "aten/ops/zeta.h"

// Functions of two real numbers.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// The other operand where one is NaN.
Operand ignore_nan(Builder& b, Operand x, Operand y, Operand extreme) {
  return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, extreme));
}

Operand hypot(Builder& b, Operand x, Operand y) {
  const Operand u = b.abs(x), v = b.abs(y);
  const Operand most = b.maximum(u, v), least = b.minimum(u, v);
  const Operand ratio = b.divide(least, most);
  const Operand length = b.multiply(most, b.sqrt(b.add(b.square(ratio), 1)));
  const Operand finite = b.select(b.equal(most, 0), b.zeros_like(x), length);
  const Operand infinite = b.bit_or(b.is_inf(x), b.is_inf(y));
  return b.select(infinite, b.filled_like(x, INFINITY), finite);
}

Operand copysign(Builder& b, Operand x, Operand y) {
  const bool wide = y.element() == ElementType::kF64;
  const Operand negative =
      b.less(b.bitcast_convert(y, wide ? ElementType::kS64 : ElementType::kS32), 0);
  const Operand size = b.abs(x);
  return b.select(negative, b.negate(size), size);
}

Operand log_add_exp2(Builder& b, Operand x, Operand y) {
  const double ln2 = std::numbers::ln2;
  return b.divide(log_add_exp(b, b.multiply(x, ln2), b.multiply(y, ln2)), ln2);
}

// x * f(y), where 0 times anything but NaN is 0
Operand zero_wins(Builder& b, Operand x, Operand y, Operand function) {
  const Operand product = b.select(b.equal(x, 0), b.zeros_like(x), b.multiply(x, function));
  return b.select(b.is_nan(y), y, product);
}

Operand heaviside(Builder& b, Operand x, Operand at_zero) {
  return b.select(b.equal(x, 0), at_zero, b.convert(b.greater(x, 0), x.element()));
}

#define OPERATOR(id, name, ...)                                                      \
  constexpr Operator id {                                                            \
    "aten::" name, map<[](Builder& b, Operand x, Operand y) { return __VA_ARGS__; }> \
  }
OPERATOR(kMaximum, "maximum", b.maximum(x, y));
OPERATOR(kMinimum, "minimum", b.minimum(x, y));
OPERATOR(kFmax, "fmax", ignore_nan(b, x, y, b.maximum(x, y)));
OPERATOR(kFmin, "fmin", ignore_nan(b, x, y, b.minimum(x, y)));
OPERATOR(kAtan2, "atan2", b.atan2(x, y));
OPERATOR(kHypot, "hypot", hypot(b, x, y));
OPERATOR(kCopysign, "copysign", copysign(b, x, y));
OPERATOR(kLogAddExp, "logaddexp", log_add_exp(b, x, y));
OPERATOR(kLogAddExp2, "logaddexp2", log_add_exp2(b, x, y));
OPERATOR(kXLogY, "xlogy", zero_wins(b, x, y, b.log(y)));
OPERATOR(kXLog1pY, "special_xlog1py", zero_wins(b, x, y, b.log_plus_one(y)));
OPERATOR(kZeta, "special_zeta", zeta(b, x, y));
OPERATOR(kNextAfter, "nextafter", b.next_after(x, y));
OPERATOR(kHeaviside, "heaviside", heaviside(b, x, y));
#undef OPERATOR

void check_ordered(const Operator& op, const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(!self.is_complex() && !other.is_complex(), op.name.substr(6),
              " not implemented for complex tensors.");
}

template <const Operator& op>
at::Tensor extreme(const at::Tensor& self, const at::Tensor& other) {
  check_ordered(op, self, other);
  return binary<op, kSame>(self, other);
}

template <const Operator& op>
at::Tensor of_inexact(const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = at::result_type(self, other);
  check_implemented(!c10::isIntegralType(dtype, true), op, dtype);
  return binary<op, kSame>(self, other);
}

at::Tensor heaviside_rule(const at::Tensor& self, const at::Tensor& values) {
  TORCH_CHECK(!self.is_complex() && !values.is_complex(),
              "heaviside is not yet implemented for complex tensors.");
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "heaviside is not yet implemented for tensors with different dtypes.");
  return binary<kHeaviside, kSame>(self, values);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("maximum", TORCH_FN(extreme<kMaximum>));
  m.impl("minimum", TORCH_FN(extreme<kMinimum>));
  m.impl("fmax", TORCH_FN(extreme<kFmax>));
  m.impl("fmin", TORCH_FN(extreme<kFmin>));
  m.impl("atan2", TORCH_FN((binary<kAtan2, kFloating>)));
  m.impl("hypot", TORCH_FN(of_inexact<kHypot>));
  m.impl("copysign.Tensor", TORCH_FN((binary<kCopysign, kFloating>)));
  m.impl("logaddexp", TORCH_FN(of_inexact<kLogAddExp>));
  m.impl("logaddexp2", TORCH_FN(of_inexact<kLogAddExp2>));
  m.impl("xlogy.Tensor", TORCH_FN((binary<kXLogY, kFloating>)));
  m.impl("special_xlog1py", TORCH_FN((binary<kXLog1pY, kFloating>)));
  m.impl("special_zeta", TORCH_FN((binary<kZeta, kFloating>)));
  m.impl("nextafter", TORCH_FN(of_inexact<kNextAfter>));
  m.impl("heaviside", TORCH_FN(heaviside_rule));
}

}  // namespace
}  // namespace torch_pjrt::aten
