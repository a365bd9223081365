#include <torch/library.h>

#include "aten/layout.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/norm.h"

// Mantissa and exponent, taken from the bits: XLA may flush what is subnormal.
namespace torch_pjrt::aten {
namespace {

constexpr Operator kFrexp{
    "aten::frexp", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand x = b.convert(e.operand(0), compute_type(e.operand(0).element()));
      const bool wide = x.element() == ElementType::kF64;
      const ElementType integer = wide ? ElementType::kS64 : ElementType::kS32;
      const int64_t digits = wide ? 52 : 23, bias = wide ? 1022 : 126, width = wide ? 64 : 32;
      const int64_t hidden = int64_t{1} << digits, all = 2 * bias + 3;
      const Operand bits = b.bitcast_convert(x, integer);
      const Operand field = b.bit_and(b.shift_right_logical(bits, digits), all);
      const Operand fraction = b.bit_and(bits, hidden - 1);
      const Operand sign = b.bit_xor(bits, b.bit_and(bits, (hidden - 1) | (all << digits)));
      // A subnormal number's first digit moves to where the hidden one is.
      const Operand subnormal = b.bit_and(b.equal(field, 0), b.not_equal(fraction, 0));
      const Operand shift =
          b.select(subnormal, b.subtract(b.count_leading_zeros(fraction), width - 1 - digits), 0);
      const Operand moved = b.bit_and(b.shift_left(fraction, shift), hidden - 1);
      const Operand half = b.bit_or(sign, b.bit_or(moved, bias << digits));
      const Operand exponent = b.subtract(b.select(subnormal, b.subtract(1, shift), field), bias);
      const Operand zero = b.bit_and(b.equal(field, 0), b.equal(fraction, 0));
      const Operand itself = b.bit_or(zero, b.equal(field, all));
      e.result(0, b.convert(b.select(itself, x, b.bitcast_convert(half, x.element())),
                            e.result_type(0).element));
      e.result(1, b.convert(b.select(itself, 0, exponent), ElementType::kS32));
    }};

std::tuple<at::Tensor, at::Tensor> frexp(const at::Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "torch.frexp() only supports floating-point dtypes");
  const auto both = Record(kFrexp).tensor(self).results(
      {{self.scalar_type(), self.sizes()}, {at::kInt, self.sizes()}});
  const auto strides = preserved_strides(self);
  return {restrided(both[0], strides), restrided(both[1], strides)};
}

TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("frexp.Tensor", TORCH_FN(frexp)); }

}  // namespace
}  // namespace torch_pjrt::aten
