#include <torch/library.h>

#include "aten/checks.h"
#include "aten/layout.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/norm.h"

// Rounding to the grid of a quantised type, and a mask of what lay within it.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// The place of a float64 is computed as it is, all else in float32, as the CPU does.
Operand computed_x(Emission& e) {
  const bool wide = e.operand(0).element() == ElementType::kF64;
  return e.builder().convert(e.operand(0), wide ? ElementType::kF64 : ElementType::kF32);
}

Operand spread_like(Builder& b, Operand number, Operand x) {
  return b.broadcast_to(b.convert(number, x.element()), x.dimensions());
}

struct Range {
  Operand least, most;
  explicit Range(Emission& e, size_t first, Operand x)
      : least(spread_like(e.builder(), e.operand(first), x)),
        most(spread_like(e.builder(), e.operand(first + 1), x)) {}
};

// Gives the value and the mask for `place`, x's place on the grid. A NaN is at its beginning. The
// value is computed in the scale's type. Unless `enabled`, if it is given, x itself.
void finish_grid(Emission& e, Operand place, Operand scale, Operand zero, const Range& range,
                 Operand enabled = {}) {
  Builder& b = e.builder();
  Operand inside = b.bit_and(b.greater_equal(place, range.least), b.less_equal(place, range.most));
  Operand kept = b.minimum(b.maximum(place, range.least), range.most);
  kept = b.select(b.is_nan(place), range.least, kept);
  const Operand steps = b.convert(b.subtract(kept, zero), scale.element());
  Operand value = b.convert(b.multiply(steps, scale), e.result_type(0).element);
  if (enabled) {
    value = b.select(enabled, value, e.operand(0));
    inside = b.bit_or(inside, b.bit_not(b.broadcast_to(enabled, inside.dimensions())));
  }
  e.result(0, value);
  e.result(1, inside);
}

// `scale`, float32, and `zero` are scalars; least and most operands 3 and 4.
void finish_one_grid(Emission& e, Operand scale, Operand zero, Operand enabled = {}) {
  Builder& b = e.builder();
  const Operand x = computed_x(e);
  const Operand spread = spread_like(b, zero, x);
  const Operand scaled = b.multiply(x, spread_like(b, b.divide(1, scale), x));
  const Operand place = b.add(b.round_nearest_even(scaled), spread);
  finish_grid(e, place, b.broadcast_to(scale, x.dimensions()), spread, Range(e, 3, x), enabled);
}

// operands: x, scale, zero point, least, most; all numbers float32
constexpr Operator kPerTensor{"aten::fake_quantize_per_tensor_affine_cachemask",
                              [](Emission& e) { finish_one_grid(e, e.operand(1), e.operand(2)); }};

// The same with tensors of one element for scale and zero point, and for whether it is done
constexpr Operator kPerTensorOfTensors{
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", [](Emission& e) {
      Builder& b = e.builder();
      const auto number = [&](size_t i, ElementType element) {
        return b.reshape(b.convert(e.operand(i), element), {});
      };
      const Operand enabled = b.not_equal(number(5, ElementType::kS32), 0);
      finish_one_grid(e, number(1, ElementType::kF32), number(2, ElementType::kS32), enabled);
    }};

// The same with scale and zero point of a channel; attributes: axis, whether zero points are whole
constexpr Operator kPerChannel{"aten::fake_quantize_per_channel_affine_cachemask", [](Emission& e) {
                                 Builder& b = e.builder();
                                 const int64_t axis = e.attributes.integer();
                                 const bool whole = e.attributes.boolean();
                                 const Operand x = computed_x(e);
                                 const auto channels = [&](Operand y) {
                                   return b.broadcast_in_dim(b.convert(y, x.element()),
                                                             x.dimensions(), {axis});
                                 };
                                 const Operand given = b.convert(e.operand(1), ElementType::kF32);
                                 const Operand scale = channels(given);
                                 const Operand zero = channels(e.operand(2));
                                 const Operand scaled = b.multiply(x, channels(b.divide(1, given)));
                                 Operand place = whole ? b.add(b.round_nearest_even(scaled), zero)
                                                       : b.round_nearest_even(b.add(scaled, zero));
                                 // What has no int64 is at the beginning, as for the cpu.
                                 place = b.select(b.less(b.abs(place), 0x1p63), place, -0x1p63);
                                 finish_grid(e, place, scale, zero, Range(e, 3, x));
                               }};

void check(const char* name, const at::Tensor& self, int64_t least, int64_t most) {
  TORCH_CHECK(least <= most, "`quant_min` should be less than or         equal to `quant_max`.");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"", name,
                              "\" not implemented for '", self.scalar_type(), "'");
}

std::tuple<at::Tensor, at::Tensor> finish_record(Record& record, const at::Tensor& self) {
  const auto both = record.results({{self.scalar_type(), self.sizes()}, {at::kBool, self.sizes()}});
  const auto strides = preserved_strides(self);
  return {restrided(both[0], strides), restrided(both[1], strides)};
}

std::tuple<at::Tensor, at::Tensor> per_tensor(const at::Tensor& self, double scale, int64_t zero,
                                              int64_t least, int64_t most) {
  check("fake_quantize_tensor_cachemask_kernel_type_handling", self, least, most);
  TORCH_CHECK(zero >= least && zero <= most,
              "`zero_point` must be between `quant_min` and `quant_max`.");
  Record record(kPerTensor);
  record.tensor(self);
  for (const at::Scalar& number :
       {at::Scalar(scale), at::Scalar(zero), at::Scalar(least), at::Scalar(most)}) {
    record.number(number, at::kFloat);
  }
  return finish_record(record, self);
}

std::tuple<at::Tensor, at::Tensor> per_tensor_of_tensors(const at::Tensor& self,
                                                         const at::Tensor& scale,
                                                         const at::Tensor& zero,
                                                         const at::Tensor& enabled, int64_t least,
                                                         int64_t most) {
  check("fake_quantize_tensor_cachemask_kernel_type_handling", self, least, most);
  for (const at::Tensor& number : {scale, zero, enabled}) {
    TORCH_CHECK(number.numel() == 1, "a Tensor with ", number.numel(),
                " elements cannot be converted to Scalar");
  }
  Record record(kPerTensorOfTensors);
  record.tensors({self, scale, zero}).number(least, at::kFloat).number(most, at::kFloat);
  return finish_record(record.tensor(enabled), self);
}

constexpr Operator kZeroOutside{
    "fake_quantize: `zero_point` must be between `quant_min` and `quant_max`; got: one outside; "
    "check the zero points",
    [](Emission& e) {
      Builder& b = e.builder();
      e.result(b.reduce(e.operand(0), graph::Reducer::kOr, {0}));
    }};

std::tuple<at::Tensor, at::Tensor> per_channel(const at::Tensor& self, const at::Tensor& scale,
                                               const at::Tensor& zero, int64_t axis, int64_t least,
                                               int64_t most) {
  const c10::ScalarType scales = scale.scalar_type(), zeros = zero.scalar_type();
  TORCH_CHECK(scales == at::kFloat || scales == at::kBFloat16,
              "Scale must be Float or BFloat16, found ", scales);
  TORCH_CHECK(zeros == at::kInt || zeros == at::kFloat || zeros == at::kHalf,
              "Zero-point must be Int32, Float or Half, found ", zeros);
  TORCH_CHECK(scale.dim() == 1, "scale should be a 1-D tensor");
  TORCH_CHECK(zero.dim() == 1, "zero point should be a 1-D tensor");
  TORCH_CHECK(scale.numel() == zero.numel(),
              "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(scale.numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  TORCH_CHECK(axis >= 0 && axis <= self.dim(),
              "`axis` must be between 0 and number of dimensions of input");
  check("fake_quantize_channel_cachemask_cpu_type_handling", self, least, most);
  if (zeros == at::kInt) check_never(kZeroOutside, zero.lt(least).logical_or(zero.gt(most)));
  Record record(kPerChannel);
  record.tensors({self, scale, zero}).number(least, at::kFloat).number(most, at::kFloat);
  record.attribute(axis).attribute(zeros == at::kInt);
  return finish_record(record, self);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("fake_quantize_per_tensor_affine_cachemask", TORCH_FN(per_tensor));
  m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
         TORCH_FN(per_tensor_of_tensors));
  m.impl("fake_quantize_per_channel_affine_cachemask", TORCH_FN(per_channel));
}

}  // namespace
}  // namespace torch_pjrt::aten
