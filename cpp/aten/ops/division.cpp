#include <ATen/ops/div.h>
#include <ATen/ops/remainder.h>
#include <torch/library.h>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/rounding.h"

// Division with rounding, and what remains of it.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::OperandList;

bool is_floating(Operand x) { return pjrt::is_floating(x.element()); }

// Whether the signs of two numbers differ.
Operand signs_differ(Builder& b, Operand x, Operand y) {
  return b.not_equal(b.less(x, 0), b.less(y, 0));
}

// The sign of the divisor, as Python's %.
Operand remainder(Builder& b, Operand x, Operand y, ElementType) {
  const Operand rest = b.remainder(x, y);
  if (!is_floating(x) && !pjrt::is_signed_integer(x.element())) return rest;
  const Operand wrong = b.bit_and(b.not_equal(rest, 0), signs_differ(b, rest, y));
  return b.select(wrong, b.add(rest, y), rest);
}

Operand floor_quotient(Builder& b, Operand x, Operand y, ElementType result) {
  const Operand rest = b.remainder(x, y);
  if (!is_floating(x)) {
    const Operand quotient = b.divide(x, y);
    if (!pjrt::is_signed_integer(x.element())) return quotient;
    const Operand wrong = b.bit_and(b.not_equal(rest, 0), signs_differ(b, rest, y));
    return b.select(wrong, b.subtract(quotient, 1), quotient);
  }
  // From the remainder, since x / y alone may round up to the next integer.
  const Operand plain = b.divide(x, y);
  const Operand whole = rounded_to(b, b.subtract(x, rest), result);
  Operand quotient = rounded_to(b, b.divide(whole, y), result);
  const Operand wrong = b.bit_and(b.not_equal(rest, 0), signs_differ(b, rest, y));
  quotient = b.select(wrong, rounded_to(b, b.subtract(quotient, 1), result), quotient);
  const Operand floor = b.floor(quotient);
  const Operand rounded =
      b.select(b.greater(b.subtract(quotient, floor), 0.5), b.add(floor, 1), floor);
  const Operand zero = b.multiply(b.sign(plain), 0.0);  // with the sign of x / y
  const Operand nonzero = b.select(b.equal(quotient, 0), zero, rounded);
  return b.select(b.equal(y, 0), plain, nonzero);
}

Operand truncated_quotient(Builder& b, Operand x, Operand y, ElementType result) {
  const Operand quotient = b.divide(x, y);
  return is_floating(x) ? b.trunc(rounded_to(b, quotient, result)) : quotient;
}

// Two operands, or one and an integer divisor in the attributes: dividing by a constant is several
// times as fast. attributes: whether the divisor is there, the divisor
template <auto kBody>
void divide(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Operand x = computed(e, 0);
  const bool constant = e.attributes.boolean();
  const Operand y = constant ? b.filled_like(x, e.attributes.integer()) : computed(e, 1);
  finish(e, kBody(b, x, y, e.result_type().element));
}

constexpr Operator kRemainder{"aten::remainder", divide<remainder>};
constexpr Operator kFmod{
    "aten::fmod",
    divide<[](Builder& b, Operand x, Operand y, ElementType) { return b.remainder(x, y); }>};
constexpr Operator kFloorDivide{"aten::floor_divide", divide<floor_quotient>};
constexpr Operator kTruncDivide{"aten::div.trunc", divide<truncated_quotient>};

constexpr Operator kZeroDivisor{
    "divide integers: ZeroDivisionError; got a divisor of 0, expected none; check the divisor",
    [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand zero = b.equal(e.operand(0), 0);
      e.result(any(b, zero));
    }};

template <const Operator& op>
Record division_record(const at::Tensor& self, const at::Tensor& other, c10::ScalarType dtype) {
  TORCH_CHECK(!c10::isComplexType(dtype), op.name, " does not support complex numbers");
  if (!c10::isIntegralType(dtype, true) || !is_host_number(other)) {
    if (c10::isIntegralType(dtype, true) && self.numel() != 0) check_never(kZeroDivisor, other);
    return std::move(binary_record(op, self, other).attribute(false));
  }
  const int64_t divisor = other.item().toLong();
  TORCH_CHECK(divisor != 0, "ZeroDivisionError");
  Record record(op);
  record.tensor(self).attribute(true).attribute(divisor);
  return record;
}

template <const Operator& op>
at::Tensor quotient(const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = at::result_type(self, other);
  return division_record<op>(self, other, dtype).elementwise(dtype, broadcast_sizes(self, other));
}

template <const Operator& op>
at::Tensor& quotient_(at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = at::result_type(self, other);
  check_in_place(self, other, dtype);
  if (is_converted(self, dtype)) return self.copy_(quotient<op>(self, other));
  division_record<op>(self, other, self.scalar_type()).write_to(self);
  return self;
}

at::Tensor remainder_of_number(const at::Scalar& self, const at::Tensor& other) {
  return at::remainder(wrapped_number(self), other);
}

at::Tensor div_mode(const at::Tensor& self, const at::Tensor& other,
                    std::optional<std::string_view> mode) {
  if (!mode) return at::div(self, other);
  if (*mode == "trunc") return quotient<kTruncDivide>(self, other);
  TORCH_CHECK(*mode == "floor",
              "div expected rounding_mode to be one of None, 'trunc', or 'floor' "
              "but found '",
              *mode, "'");
  return quotient<kFloorDivide>(self, other);
}

at::Tensor& div_mode_(at::Tensor& self, const at::Tensor& other,
                      std::optional<std::string_view> mode) {
  if (!mode) return self.div_(other);
  if (*mode == "trunc") return quotient_<kTruncDivide>(self, other);
  TORCH_CHECK(*mode == "floor",
              "div expected rounding_mode to be one of None, 'trunc', or 'floor' "
              "but found '",
              *mode, "'");
  return quotient_<kFloorDivide>(self, other);
}

Operand greatest_common_divisor(Builder& b, Operand x, Operand y) {
  const Operands ends = b.while_loop(
      {b.abs(x), b.abs(y)},
      [](Builder& b, OperandList pair) {
        const Operand going = b.not_equal(pair[1], 0);
        return Operands{any(b, going)};
      },
      [](Builder& b, OperandList pair) {
        const Operand done = b.equal(pair[1], 0);
        const Operand divisor = b.select(done, b.ones_like(pair[1]), pair[1]);
        return Operands{b.select(done, pair[0], pair[1]),
                        b.select(done, pair[1], b.remainder(pair[0], divisor))};
      });
  return ends[0];
}

constexpr Operator kGcd{"aten::gcd", map<greatest_common_divisor>};
constexpr Operator kLcm{"aten::lcm", map<[](Builder& b, Operand x, Operand y) {
                          const Operand divisor = greatest_common_divisor(b, x, y);
                          const Operand none = b.equal(divisor, 0);
                          const Operand safe = b.select(none, b.ones_like(divisor), divisor);
                          return b.select(none, b.zeros_like(x),
                                          b.abs(b.multiply(b.divide(x, safe), y)));
                        }>};

template <const Operator& op>
at::Tensor of_integers(const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = at::result_type(self, other);
  check_implemented(at::isIntegralType(dtype, /*includeBool=*/false), op, dtype);
  return binary<op, kSame>(self, other);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("remainder.Tensor", TORCH_FN(quotient<kRemainder>));
  m.impl("remainder_.Tensor", TORCH_FN(quotient_<kRemainder>));
  m.impl("remainder.Scalar_Tensor", TORCH_FN(remainder_of_number));
  m.impl("fmod.Tensor", TORCH_FN(quotient<kFmod>));
  m.impl("fmod_.Tensor", TORCH_FN(quotient_<kFmod>));
  m.impl("floor_divide", TORCH_FN(quotient<kFloorDivide>));
  m.impl("floor_divide_.Tensor", TORCH_FN(quotient_<kFloorDivide>));
  m.impl("div.Tensor_mode", TORCH_FN(div_mode));
  m.impl("div_.Tensor_mode", TORCH_FN(div_mode_));
  m.impl("gcd", TORCH_FN(of_integers<kGcd>));
  m.impl("lcm", TORCH_FN(of_integers<kLcm>));
}

}  // namespace
}  // namespace torch_pjrt::aten
