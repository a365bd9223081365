#pragma once

#include <ATen/OpMathType.h>
#include <ATen/ScalarOps.h>

#include <type_traits>
#include <utility>

#include "aten/ops/binary.h"
#include "aten/types.h"

// What rows of elementwise operators share: tables of operators whose emission is one expression.
namespace torch_pjrt::aten {

using graph::ElementType;

// The type an operator computes in: float32 for the shorter floating types, which PyTorch on the
// cpu also rounds only at the end.
inline ElementType compute_type(ElementType element) {
  return pjrt::is_floating(element) && pjrt::bit_width(element) < 32 ? ElementType::kF32 : element;
}

// The dtype of the result where integers give floating numbers.
inline c10::ScalarType float_type(c10::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/true)
             ? c10::typeMetaToScalarType(c10::get_default_dtype())
             : dtype;
}

// The real dtype with the parts of a complex one.
inline c10::ScalarType real_type(c10::ScalarType dtype) {
  return c10::isComplexType(dtype) ? c10::toRealValueType(dtype) : dtype;
}

// Operand i rounded to `common`, in common's compute type, broadcast to the result's sizes.
inline Operand computed(Emission& e, size_t i, ElementType common) {
  StableHloBuilder& b = e.builder();
  Operand x = e.operand(i);
  // A number that is more exact than the tensors must not stay so.
  if (x.element() != compute_type(common)) x = b.convert(x, common);
  return b.broadcast_to(b.convert(x, compute_type(common)), e.result_type().dimensions);
}
inline Operand computed(Emission& e, size_t i) { return computed(e, i, e.result_type().element); }

inline void finish(Emission& e, Operand x) {
  e.result(e.builder().convert(x, e.result_type().element));
}

template <auto kBody, size_t... i>
void apply(Emission& e, ElementType common, std::index_sequence<i...>) {
  constexpr auto kOperand = [](size_t) { return Operand(); };
  if constexpr (std::is_invocable_v<decltype(kBody), StableHloBuilder&, decltype(kOperand(i))...>) {
    finish(e, kBody(e.builder(), computed(e, i, common)...));
  } else {
    apply<kBody>(e, common, std::make_index_sequence<sizeof...(i) + 1>());
  }
}

// An emission that computes `kBody(builder, operands...)` in the type of the result.
template <auto kBody>
void map(Emission& e) {
  apply<kBody>(e, e.result_type().element, std::make_index_sequence<1>());
}

// The same in a type given as the first attribute, for results of another type than the operands.
template <auto kBody>
void test(Emission& e) {
  apply<kBody>(e, static_cast<ElementType>(e.attributes.integer()), std::make_index_sequence<1>());
}

inline int64_t element_attribute(c10::ScalarType dtype) {
  return static_cast<int64_t>(element_type(dtype));
}

// A Python number as an operand that takes part in type promotion as such.
inline at::Tensor wrapped_number(const at::Scalar& scalar) {
  at::Tensor tensor = c10::scalar_to_tensor(scalar);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// Throws as PyTorch on the cpu does when it has no kernel for a dtype.
inline void check_implemented(bool implemented, const Operator& op, c10::ScalarType dtype) {
  TORCH_CHECK_NOT_IMPLEMENTED(implemented, "\"", op.name.substr(6), "\" not implemented for '",
                              dtype, "'");
}

// How the dtype of the result follows from the promoted dtype of the operands.
enum class Rule : uint8_t { kSame, kFloating };

constexpr Rule kSame = Rule::kSame;
constexpr Rule kFloating = Rule::kFloating;

inline c10::ScalarType result_dtype(Rule rule, c10::ScalarType dtype) {
  return rule == kSame ? dtype : float_type(dtype);
}

template <const Operator& op, Rule rule>
at::Tensor unary(const at::Tensor& self) {
  return Record(op).tensor(self).elementwise(result_dtype(rule, self.scalar_type()), self.sizes());
}

template <const Operator& op, Rule rule>
at::Tensor& unary_(at::Tensor& self) {
  const c10::ScalarType dtype = result_dtype(rule, self.scalar_type());
  TORCH_CHECK(c10::canCast(dtype, self.scalar_type()), "result type ", dtype,
              " can't be cast to the desired output type ", self.scalar_type());
  Record(op).tensor(self).write_to(self);
  return self;
}

// What PyTorch has for float32 and float64 alone.
template <const Operator& op>
at::Tensor unary_of_float(const at::Tensor& self) {
  const c10::ScalarType dtype = float_type(self.scalar_type());
  check_implemented(dtype == at::kFloat || dtype == at::kDouble, op, dtype);
  return unary<op, kFloating>(self);
}

// A bool result.
template <const Operator& op>
at::Tensor unary_test(const at::Tensor& self) {
  return Record(op)
      .tensor(self)
      .attribute(element_attribute(self.scalar_type()))
      .elementwise(at::kBool, self.sizes());
}

template <const Operator& op, Rule rule>
at::Tensor binary(const at::Tensor& self, const at::Tensor& other) {
  return binary_record(op, self, other)
      .elementwise(result_dtype(rule, at::result_type(self, other)), broadcast_sizes(self, other));
}

template <const Operator& op, Rule rule>
at::Tensor& binary_(at::Tensor& self, const at::Tensor& other) {
  check_in_place(self, other, result_dtype(rule, at::result_type(self, other)));
  binary_record(op, self, other).write_to(self);
  return self;
}

}  // namespace torch_pjrt::aten
