#include <ATen/ExpandUtils.h>
#include <torch/library.h>

#include <ATen/native/TypeProperties.h>

#include "aten/layout.h"
#include "aten/ops/elementwise.h"

// Elementwise operators of three tensors or numbers.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

c10::DimVector broadcast_sizes(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  const c10::DimVector sizes = aten::broadcast_sizes(a, b);
  return c.sizes() == at::IntArrayRef(sizes) ? sizes : at::infer_size_dimvector(sizes, c.sizes());
}

void check_in_place(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b,
                    c10::ScalarType dtype) {
  TORCH_CHECK(c10::canCast(dtype, self.scalar_type()), "result type ", dtype,
              " can't be cast to the desired output type ", self.scalar_type());
  check_output_sizes(self, broadcast_sizes(self, a, b));
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  static constexpr Operator op{
      "aten::where", [](Emission& e) {
        Builder& b = e.builder();
        const graph::Type& type = e.result_type();
        const auto branch = [&](size_t i) {
          return b.broadcast_to(b.convert(e.operand(i), type.element), type.dimensions);
        };
        e.result(b.select(computed(e, 0, ElementType::kPred), branch(1), branch(2)));
      }};
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
  return Record(op)
      .on(executor_of({condition, self, other}))
      .tensor(condition)
      .tensor(self)
      .tensor(other)
      .elementwise(at::result_type(self, other), broadcast_sizes(condition, self, other));
}

// self + value * x * y, and the same with x / y; operand 3: value, unless it is 1
template <bool kDivides, bool kScaled>
void emit_combination(Emission& e) {
  Builder& b = e.builder();
  Operand x = computed(e, 1);
  if (kScaled) x = b.multiply(computed(e, 3), x);
  const Operand y = computed(e, 2);
  finish(e, b.add(computed(e, 0), kDivides ? b.divide(x, y) : b.multiply(x, y)));
}

constexpr Operator kAddcmul{"aten::addcmul", emit_combination<false, true>};
constexpr Operator kAddcmulPlain{"aten::addcmul.one", emit_combination<false, false>};
constexpr Operator kAddcdiv{"aten::addcdiv", emit_combination<true, true>};
constexpr Operator kAddcdivPlain{"aten::addcdiv.one", emit_combination<true, false>};

template <const Operator& scaled, const Operator& plain>
Record combination_record(const at::Tensor& self, const at::Tensor& x, const at::Tensor& y,
                          const at::Scalar& value, c10::ScalarType dtype) {
  TORCH_CHECK(&scaled != &kAddcdiv || !c10::isIntegralType(x.scalar_type(), true) ||
                  !c10::isIntegralType(y.scalar_type(), true),
              "Integer division with addcdiv is no longer supported, and in a future  release "
              "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
              "behavior can be implemented as (input + value * torch.trunc(tensor1 / "
              "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
              "tensor2) for float inputs.");
  const bool one = !value.isComplex() && value.toDouble() == 1;
  Record record(one ? plain : scaled);
  record.on(executor_of({self, x, y})).tensor(self).tensor(x).tensor(y);
  if (!one) record.number(value, at::toOpMathType(dtype));
  return record;
}

c10::ScalarType promoted(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  return at::native::result_type(at::TensorList({a, b, c}));
}

template <const Operator& scaled, const Operator& plain>
at::Tensor combination(const at::Tensor& self, const at::Tensor& x, const at::Tensor& y,
                       const at::Scalar& value) {
  const c10::ScalarType dtype = promoted(self, x, y);
  return combination_record<scaled, plain>(self, x, y, value, dtype)
      .elementwise(dtype, broadcast_sizes(self, x, y));
}

template <const Operator& scaled, const Operator& plain>
at::Tensor& combination_(at::Tensor& self, const at::Tensor& x, const at::Tensor& y,
                         const at::Scalar& value) {
  const c10::ScalarType dtype = promoted(self, x, y);
  check_in_place(self, x, y, dtype);
  if (is_converted(self, dtype)) {
    return self.copy_(combination<scaled, plain>(self, x, y, value));
  }
  combination_record<scaled, plain>(self, x, y, value, self.scalar_type()).write_to(self);
  return self;
}

// From the end that is nearer, so that weight 1 gives `end` exactly.
constexpr Operator kLerp{
    "aten::lerp", map<[](Builder& b, Operand start, Operand end, Operand weight) {
      const Operand way = b.subtract(end, start);
      return b.select(b.less(b.abs(weight), 0.5), b.add(start, b.multiply(weight, way)),
                      b.subtract(end, b.multiply(way, b.subtract(1, weight))));
    }>};

void check_lerp(const at::Tensor& self, const at::Tensor& other, const char* name) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "expected dtype ", self.scalar_type(),
              " for `", name, "` but got dtype ", other.scalar_type());
}

Record lerp_record(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight) {
  check_lerp(self, end, "end");
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.is_complex(),
                              "\"lerp_kernel_scalar\" not implemented for '", self.scalar_type(),
                              "'");
  Record record = binary_record(kLerp, self, end);
  record.number(weight, at::toOpMathType(self.scalar_type()));
  return record;
}

at::Tensor lerp_number(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight) {
  return lerp_record(self, end, weight)
      .elementwise(self.scalar_type(), aten::broadcast_sizes(self, end));
}

at::Tensor& lerp_number_(at::Tensor& self, const at::Tensor& end, const at::Scalar& weight) {
  Record record = lerp_record(self, end, weight);
  aten::check_in_place(self, end);
  record.write_to(self);
  return self;
}

Record lerp_record(const at::Tensor& self, const at::Tensor& end, const at::Tensor& weight) {
  check_lerp(self, end, "end");
  if (!is_host_number(weight)) check_lerp(self, weight, "weight");
  Record record(kLerp);
  record.on(executor_of({self, end, weight})).tensor(self).tensor(end).tensor(weight);
  return record;
}

at::Tensor lerp(const at::Tensor& self, const at::Tensor& end, const at::Tensor& weight) {
  return lerp_record(self, end, weight)
      .elementwise(self.scalar_type(), broadcast_sizes(self, end, weight));
}

at::Tensor& lerp_(at::Tensor& self, const at::Tensor& end, const at::Tensor& weight) {
  Record record = lerp_record(self, end, weight);
  check_in_place(self, end, weight, self.scalar_type());
  record.write_to(self);
  return self;
}

// operands after x: the bounds that there are; attributes: which there are
constexpr Operator kClamp{"aten::clamp", [](Emission& e) {
                            Builder& b = e.builder();
                            Operand x = computed(e, 0);
                            size_t next = 1;
                            if (e.attributes.boolean()) x = b.maximum(x, computed(e, next++));
                            if (e.attributes.boolean()) x = b.minimum(x, computed(e, next++));
                            finish(e, x);
                          }};

using Bound = std::optional<at::Scalar>;

c10::ScalarType clamp_dtype(const at::Tensor& self, const Bound& min, const Bound& max) {
  TORCH_CHECK(min || max, "torch.clamp: At least one of 'min' or 'max' must not be None");
  TORCH_CHECK(!self.is_complex(), "clamp is not supported for complex types");
  at::native::ResultTypeState state = at::native::update_result_type_state(self, {});
  if (min) state = at::native::update_result_type_state(wrapped_number(*min), state);
  if (max) state = at::native::update_result_type_state(wrapped_number(*max), state);
  return at::native::result_type(state);
}

Record clamp_record(const at::Tensor& self, const Bound& min, const Bound& max,
                    c10::ScalarType dtype) {
  Record record(kClamp);
  record.tensor(self).attribute(min.has_value()).attribute(max.has_value());
  const c10::ScalarType number = at::toOpMathType(dtype);
  if (min) record.number(*min, number);
  if (max) record.number(*max, number);
  return record;
}

at::Tensor clamp(const at::Tensor& self, const Bound& min, const Bound& max) {
  const c10::ScalarType dtype = clamp_dtype(self, min, max);
  return clamp_record(self, min, max, dtype).elementwise(dtype, self.sizes());
}

at::Tensor& clamp_(at::Tensor& self, const Bound& min, const Bound& max) {
  const c10::ScalarType dtype = clamp_dtype(self, min, max);
  TORCH_CHECK(c10::canCast(dtype, self.scalar_type()), "result type ", dtype,
              " can't be cast to the desired output type ", self.scalar_type());
  clamp_record(self, min, max, dtype).write_to(self);
  return self;
}

at::Tensor clamp_min(const at::Tensor& self, const at::Scalar& min) {
  return clamp(self, min, std::nullopt);
}
at::Tensor& clamp_min_(at::Tensor& self, const at::Scalar& min) {
  return clamp_(self, min, std::nullopt);
}
at::Tensor clamp_max(const at::Tensor& self, const at::Scalar& max) {
  return clamp(self, std::nullopt, max);
}
at::Tensor& clamp_max_(at::Tensor& self, const at::Scalar& max) {
  return clamp_(self, std::nullopt, max);
}

at::Tensor clamp_tensors(const at::Tensor& self, const std::optional<at::Tensor>& min,
                         const std::optional<at::Tensor>& max) {
  const bool has_min = min && min->defined(), has_max = max && max->defined();
  TORCH_CHECK(has_min || has_max, "torch.clamp: At least one of 'min' or 'max' must not be None");
  TORCH_CHECK(!self.is_complex(), "clamp is not supported for complex types");
  std::vector<at::Tensor> all{self};
  if (has_min) all.push_back(*min);
  if (has_max) all.push_back(*max);
  c10::DimVector sizes(self.sizes());
  for (const at::Tensor& tensor : all) sizes = at::infer_size_dimvector(sizes, tensor.sizes());
  Record record(kClamp);
  record.on(executor_of(all)).tensors(all).attribute(has_min).attribute(has_max);
  return record.elementwise(at::native::result_type(at::TensorList(all)), sizes);
}

at::Tensor clamp_min_tensor(const at::Tensor& self, const at::Tensor& min) {
  return clamp_tensors(self, min, std::nullopt);
}
at::Tensor clamp_max_tensor(const at::Tensor& self, const at::Tensor& max) {
  return clamp_tensors(self, std::nullopt, max);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("where.self", TORCH_FN(where));
  m.impl("addcmul", TORCH_FN((combination<kAddcmul, kAddcmulPlain>)));
  m.impl("addcmul_", TORCH_FN((combination_<kAddcmul, kAddcmulPlain>)));
  m.impl("addcdiv", TORCH_FN((combination<kAddcdiv, kAddcdivPlain>)));
  m.impl("addcdiv_", TORCH_FN((combination_<kAddcdiv, kAddcdivPlain>)));
  m.impl("lerp.Scalar", TORCH_FN(lerp_number));
  m.impl("lerp_.Scalar", TORCH_FN(lerp_number_));
  m.impl("lerp.Tensor", TORCH_FN(lerp));
  m.impl("lerp_.Tensor", TORCH_FN(lerp_));
  m.impl("clamp", TORCH_FN(clamp));
  m.impl("clamp_", TORCH_FN(clamp_));
  m.impl("clamp_min", TORCH_FN(clamp_min));
  m.impl("clamp_min_", TORCH_FN(clamp_min_));
  m.impl("clamp_max", TORCH_FN(clamp_max));
  m.impl("clamp_max_", TORCH_FN(clamp_max_));
  m.impl("clamp.Tensor", TORCH_FN(clamp_tensors));
  m.impl("clamp_min.Tensor", TORCH_FN(clamp_min_tensor));
  m.impl("clamp_max.Tensor", TORCH_FN(clamp_max_tensor));
}

}  // namespace
}  // namespace torch_pjrt::aten
