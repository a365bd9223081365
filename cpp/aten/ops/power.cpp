#include <torch/library.h>

#include <cmath>

#include "aten/ops/elementwise.h"

// pow in its three forms.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

Operand repeated_product(Builder& b, Operand x, uint64_t exponent) {
  Operand result, square = x;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = result ? b.multiply(result, square) : square;
    if (exponent > 1) square = b.square(square);
  }
  return result;
}

bool is_integer_type(Operand x) {
  return !pjrt::is_floating(x.element()) && !pjrt::is_complex(x.element());
}

Operand constant_power(Builder& b, Operand x, double exponent) {
  if (exponent == 0) return b.ones_like(x);
  if (exponent == 0.5) return b.sqrt(x);
  if (exponent == -0.5) return b.divide(1, b.sqrt(x));
  const Operand product = repeated_product(b, x, static_cast<uint64_t>(std::abs(exponent)));
  return exponent < 0 ? b.divide(1, product) : product;
}

Operand power(Builder& b, Operand x, Operand y) {
  if (!is_integer_type(x) || !pjrt::is_signed_integer(x.element())) return b.power(x, y);
  // 1 / x^-y rounded to zero
  const Operand odd = b.equal(b.bit_and(y, 1), 1);
  const Operand unit = b.select(b.equal(x, 1), b.ones_like(x), b.zeros_like(x));
  const Operand minus = b.select(odd, b.filled_like(x, -1), b.ones_like(x));
  const Operand inverse = b.select(b.equal(x, -1), minus, unit);
  return b.select(b.less(y, 0), inverse, b.power(x, b.maximum(y, 0)));
}

constexpr Operator kPower{"aten::pow", map<power>};
constexpr Operator kConstantPower{
    "aten::pow.constant", [](Emission& e) {
      finish(e, constant_power(e.builder(), computed(e, 0), e.attributes.real()));
    }};

// Exponents that become multiplications, and so another program each.
bool is_structural(const at::Scalar& exponent) {
  if (exponent.isComplex()) return false;
  const double value = exponent.toDouble();
  return (value == std::trunc(value) && std::abs(value) <= 64) || std::abs(value) == 0.5;
}

Record power_record(const at::Tensor& self, const at::Scalar& exponent, c10::ScalarType dtype) {
  TORCH_CHECK(
      !(c10::isIntegralType(dtype, true) && exponent.isIntegral(true) && exponent.toLong() < 0),
      "Integers to negative integer powers are not allowed.");
  TORCH_CHECK_NOT_IMPLEMENTED(dtype != at::kBool, "\"pow\" not implemented for 'Bool'");
  if (is_structural(exponent)) {
    Record record(kConstantPower);
    record.tensor(self).attribute(exponent.toDouble());
    return record;
  }
  Record record(kPower);
  record.tensor(self).number(exponent, dtype);
  return record;
}

at::Tensor pow_tensor_scalar(const at::Tensor& self, const at::Scalar& exponent) {
  const c10::ScalarType dtype = at::result_type(self, exponent);
  return power_record(self, exponent, dtype).elementwise(dtype, self.sizes());
}

at::Tensor& pow_scalar_(at::Tensor& self, const at::Scalar& exponent) {
  const c10::ScalarType dtype = at::result_type(self, exponent);
  TORCH_CHECK(c10::canCast(dtype, self.scalar_type()), "result type ", dtype,
              " can't be cast to the desired output type ", self.scalar_type());
  power_record(self, exponent, self.scalar_type()).write_to(self);
  return self;
}

at::Tensor pow_tensor_tensor(const at::Tensor& self, const at::Tensor& exponent) {
  if (exponent.unsafeGetTensorImpl()->is_wrapped_number()) {
    return pow_tensor_scalar(self, exponent.item());
  }
  return binary<kPower, kSame>(self, exponent);
}

at::Tensor pow_scalar_tensor(const at::Scalar& self, const at::Tensor& exponent) {
  return binary<kPower, kSame>(wrapped_number(self), exponent).contiguous();  // as on the cpu
}

at::Tensor& pow_tensor_(at::Tensor& self, const at::Tensor& exponent) {
  check_in_place(self, exponent);
  return self.copy_(pow_tensor_tensor(self, exponent));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("pow.Tensor_Scalar", TORCH_FN(pow_tensor_scalar));
  m.impl("pow_.Scalar", TORCH_FN(pow_scalar_));
  m.impl("pow.Tensor_Tensor", TORCH_FN(pow_tensor_tensor));
  m.impl("pow_.Tensor", TORCH_FN(pow_tensor_));
  m.impl("pow.Scalar", TORCH_FN(pow_scalar_tensor));
}

}  // namespace
}  // namespace torch_pjrt::aten
