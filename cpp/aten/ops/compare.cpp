#include <ATen/ops/all.h>
#include <ATen/ops/item.h>
#include <torch/library.h>

#include "aten/errors.h"
#include "aten/ops/elementwise.h"

// Comparisons, logic and bits of two tensors.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

#define COMPARISON(id, method)                                                              \
  constexpr Operator id {                                                                   \
    "aten::" #method, test<[](Builder& b, Operand x, Operand y) { return b.method(x, y); }> \
  }

COMPARISON(kEqual, equal);
COMPARISON(kNotEqual, not_equal);
COMPARISON(kLess, less);
COMPARISON(kLessEqual, less_equal);
COMPARISON(kGreater, greater);
COMPARISON(kGreaterEqual, greater_equal);
#undef COMPARISON

template <const Operator& op>
at::Tensor compare(const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType common = at::result_type(self, other);
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isComplexType(common) || &op == &kEqual || &op == &kNotEqual,
                              op.name, ": complex numbers have no order");
  return binary_record(op, self, other)
      .attribute(element_attribute(common))
      .elementwise(at::kBool, broadcast_sizes(self, other));
}

template <const Operator& op>
at::Tensor compare_number(const at::Tensor& self, const at::Scalar& other) {
  const c10::ScalarType common = at::result_type(self, other);
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isComplexType(common) || &op == &kEqual || &op == &kNotEqual,
                              op.name, ": complex numbers have no order");
  return Record(op)
      .tensor(self)
      .number(other, common)
      .attribute(element_attribute(common))
      .elementwise(at::kBool, self.sizes(), /*beside_number=*/true);
}

template <auto kBody>
void logic(Emission& e) {
  StableHloBuilder& b = e.builder();
  finish(e, kBody(b, computed(e, 0, ElementType::kPred), computed(e, 1, ElementType::kPred)));
}

constexpr Operator kLogicalAnd{
    "aten::logical_and", logic<[](Builder& b, Operand x, Operand y) { return b.bit_and(x, y); }>};
constexpr Operator kLogicalOr{
    "aten::logical_or", logic<[](Builder& b, Operand x, Operand y) { return b.bit_or(x, y); }>};
constexpr Operator kLogicalXor{
    "aten::logical_xor", logic<[](Builder& b, Operand x, Operand y) { return b.bit_xor(x, y); }>};

template <const Operator& op>
at::Tensor logical(const at::Tensor& self, const at::Tensor& other) {
  return binary_record(op, self, other).elementwise(at::kBool, broadcast_sizes(self, other));
}

template <const Operator& op>
at::Tensor& logical_(at::Tensor& self, const at::Tensor& other) {
  check_in_place(self, other, at::kBool);
  binary_record(op, self, other).write_to(self);
  return self;
}

#define BITWISE(id, name, method)                                                       \
  constexpr Operator id {                                                               \
    "aten::" name, map<[](Builder& b, Operand x, Operand y) { return b.method(x, y); }> \
  }
BITWISE(kAnd, "bitwise_and", bit_and);
BITWISE(kOr, "bitwise_or", bit_or);
BITWISE(kXor, "bitwise_xor", bit_xor);
BITWISE(kShiftLeft, "bitwise_left_shift", shift_left);
BITWISE(kShiftRight, "bitwise_right_shift", shift_right_arithmetic);
#undef BITWISE

void check_bits(const Operator& op, c10::ScalarType dtype, bool with_bool) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(dtype, with_bool), "\"", op.name,
                              "\" not implemented for '", dtype, "'");
}

template <const Operator& op>
at::Tensor bitwise(const at::Tensor& self, const at::Tensor& other) {
  check_bits(op, at::result_type(self, other), &op != &kShiftLeft && &op != &kShiftRight);
  return binary<op, kSame>(self, other);
}

template <const Operator& op>
at::Tensor& bitwise_(at::Tensor& self, const at::Tensor& other) {
  check_bits(op, at::result_type(self, other), &op != &kShiftLeft && &op != &kShiftRight);
  return binary_<op, kSame>(self, other);
}

// Reads one bool from the device.
bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ",
              self.scalar_type(), " but got data type ", other.scalar_type(),
              " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::all(compare<kEqual>(self, other)).item<bool>();
}

#define COMPARE(name, op)                        \
  m.impl(name ".Tensor", TORCH_FN(compare<op>)); \
  m.impl(name ".Scalar", TORCH_FN(compare_number<op>))
#define ROW(name, variant, op, function)        \
  m.impl(name variant, TORCH_FN(function<op>)); \
  m.impl(name "_" variant, TORCH_FN(function##_<op>))

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  COMPARE("eq", kEqual);
  COMPARE("ne", kNotEqual);
  COMPARE("lt", kLess);
  COMPARE("le", kLessEqual);
  COMPARE("gt", kGreater);
  COMPARE("ge", kGreaterEqual);
  ROW("logical_and", "", kLogicalAnd, logical);
  ROW("logical_or", "", kLogicalOr, logical);
  ROW("logical_xor", "", kLogicalXor, logical);
  ROW("bitwise_and", ".Tensor", kAnd, bitwise);
  ROW("bitwise_or", ".Tensor", kOr, bitwise);
  ROW("bitwise_xor", ".Tensor", kXor, bitwise);
  ROW("bitwise_left_shift", ".Tensor", kShiftLeft, bitwise);
  ROW("bitwise_right_shift", ".Tensor", kShiftRight, bitwise);
  m.impl("equal", TORCH_FN(equal));
}

}  // namespace
}  // namespace torch_pjrt::aten
