#include <ATen/ExpandUtils.h>
#include <ATen/native/BinaryOps.h>
#include <torch/library.h>

#include "aten/ops/binary.h"
#include "aten/ops/elementwise.h"

// Arithmetic of two tensors, one of which may be a number.
namespace torch_pjrt::aten {
namespace {

// Both operands converted to the result's dtype and broadcast to its sizes.
std::pair<Operand, Operand> promoted(Emission& e) {
  StableHloBuilder& b = e.builder();
  const graph::Type& type = e.result_type();
  return {b.broadcast_to(b.convert(e.operand(0), type.element), type.dimensions),
          b.broadcast_to(b.convert(e.operand(1), type.element), type.dimensions)};
}

constexpr Operator kAdd{"aten::add", [](Emission& e) {
                          auto [a, b] = promoted(e);
                          e.result(e.builder().add(a, b));
                        }};
// operand 2: alpha
constexpr Operator kAddScaled{"aten::add.alpha", [](Emission& e) {
                                StableHloBuilder& b = e.builder();
                                auto [x, y] = promoted(e);
                                const Operand alpha =
                                    b.broadcast_to(e.operand(2), e.result_type().dimensions);
                                e.result(b.add(x, b.multiply(y, alpha)));
                              }};
constexpr Operator kSubtract{"aten::sub", [](Emission& e) {
                               auto [a, b] = promoted(e);
                               e.result(e.builder().subtract(a, b));
                             }};
// A product or quotient. The cpu takes a single second operand of another dtype as it is where the
// result is a short float, and rounds once.
template <Operand (StableHloBuilder::*function)(graph::Term, graph::Term)>
void emit_scaled(Emission& e) {
  StableHloBuilder& b = e.builder();
  const graph::Type& type = e.result_type();
  const Operand other = e.operand(1);
  const bool is_wide = type.element != compute_type(type.element) &&
                       other.element() != type.element && other.type().element_count() == 1;
  const ElementType working = is_wide ? compute_type(type.element) : type.element;
  const auto spread = [&](Operand x) {
    return b.broadcast_to(b.convert(x, working), type.dimensions);
  };
  e.result(b.convert((b.*function)(spread(e.operand(0)), spread(other)), type.element));
}

constexpr Operator kMultiply{"aten::mul", emit_scaled<&StableHloBuilder::multiply>};
constexpr Operator kDivide{"aten::div", emit_scaled<&StableHloBuilder::divide>};

bool is_one(const at::Scalar& alpha) { return !alpha.isComplex() && alpha.toDouble() == 1.0; }

Record add_record(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha,
                  at::ScalarType dtype, bool subtract) {
  at::native::alpha_check(dtype, alpha);
  const bool plain = is_one(alpha);
  const Operator& op = plain ? (subtract ? kSubtract : kAdd) : kAddScaled;
  Record record = binary_record(op, self, other);
  if (!plain) {
    record.number(subtract ? at::Scalar(-alpha) : alpha, dtype);
  }
  return record;
}

at::Tensor add(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const at::ScalarType dtype = at::result_type(self, other);
  return add_record(self, other, alpha, dtype, false)
      .elementwise(dtype, broadcast_sizes(self, other));
}

at::Tensor& add_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const at::ScalarType dtype = at::result_type(self, other);
  check_in_place(self, other, dtype);
  at::native::alpha_check(dtype, alpha);
  if (is_converted(self, dtype)) return self.copy_(add(self, other, alpha));
  add_record(self, other, alpha, self.scalar_type(), false).write_to(self);
  return self;
}

at::Tensor sub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  at::native::sub_check(self, other);
  const at::ScalarType dtype = at::result_type(self, other);
  return add_record(self, other, alpha, dtype, true)
      .elementwise(dtype, broadcast_sizes(self, other));
}

at::Tensor& sub_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  at::native::sub_check(self, other);
  const at::ScalarType dtype = at::result_type(self, other);
  check_in_place(self, other, dtype);
  if (is_converted(self, dtype)) return self.copy_(sub(self, other, alpha));
  add_record(self, other, alpha, self.scalar_type(), true).write_to(self);
  return self;
}

at::Tensor mul(const at::Tensor& self, const at::Tensor& other) {
  return binary_record(kMultiply, self, other)
      .elementwise(at::result_type(self, other), broadcast_sizes(self, other));
}

at::Tensor& mul_(at::Tensor& self, const at::Tensor& other) {
  const at::ScalarType dtype = at::result_type(self, other);
  check_in_place(self, other, dtype);
  if (is_converted(self, dtype)) return self.copy_(mul(self, other));
  binary_record(kMultiply, self, other).write_to(self);
  return self;
}

at::ScalarType true_division_dtype(const at::Tensor& self, const at::Tensor& other) {
  const at::ScalarType dtype = at::result_type(self, other);
  return at::isIntegralType(dtype, /*includeBool=*/true)
             ? c10::typeMetaToScalarType(c10::get_default_dtype())
             : dtype;
}

at::Tensor div(const at::Tensor& self, const at::Tensor& other) {
  return binary_record(kDivide, self, other)
      .elementwise(true_division_dtype(self, other), broadcast_sizes(self, other));
}

at::Tensor& div_(at::Tensor& self, const at::Tensor& other) {
  const at::ScalarType dtype = true_division_dtype(self, other);
  check_in_place(self, other, dtype);
  if (is_converted(self, dtype)) return self.copy_(div(self, other));
  binary_record(kDivide, self, other).write_to(self);
  return self;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("add.Tensor", TORCH_FN(add));
  m.impl("add_.Tensor", TORCH_FN(add_));
  m.impl("sub.Tensor", TORCH_FN(sub));
  m.impl("sub_.Tensor", TORCH_FN(sub_));
  m.impl("mul.Tensor", TORCH_FN(mul));
  m.impl("mul_.Tensor", TORCH_FN(mul_));
  m.impl("div.Tensor", TORCH_FN(div));
  m.impl("div_.Tensor", TORCH_FN(div_));
}

}  // namespace
}  // namespace torch_pjrt::aten
