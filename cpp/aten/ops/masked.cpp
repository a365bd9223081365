#include <torch/library.h>

#include "aten/checks.h"
#include "aten/layout.h"
#include "aten/number_range.h"
#include "aten/ops/binary.h"
#include "aten/ops/indexing.h"
#include "graph/held_element.h"

// Writing where a mask says so.
namespace torch_pjrt::aten {
namespace {

// operands: self, mask, value (0-dim)
constexpr Operator kMaskedFill{
    "aten::masked_fill", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const Operand mask = b.broadcast_to(e.operand(1), type.dimensions);
      const Operand value = b.broadcast_to(b.convert(e.operand(2), type.element), type.dimensions);
      e.result(b.select(mask, value, b.broadcast_to(e.operand(0), type.dimensions)));
    }};

void check_mask(std::string_view name, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, name,
              " only supports boolean masks, but got mask with dtype ", mask.scalar_type());
}

void check_value(const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
}

Record fill_record(const at::Tensor& self, const at::Tensor& mask) {
  check_mask("masked_fill_", mask);
  Record record(kMaskedFill);
  record.tensor(self).tensor(mask);
  return record;
}

// Of the places where an expanded tensor shows one element, one that is selected is enough.
at::Tensor mask_without_repeats(const at::Tensor& self, const at::Tensor& mask) {
  at::Tensor selected = mask.expand(self.sizes());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.stride(d) == 0 && self.size(d) > 1) selected = selected.any(d, /*keepdim=*/true);
  }
  return selected;
}

at::Tensor& masked_fill_scalar_(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  check_fits(value, self.scalar_type());
  check_broadcasts_to(self, mask);
  if (repeats_elements(self)) {
    check_mask("masked_fill_", mask);
    at::Tensor once = without_repeats(self);
    masked_fill_scalar_(once, mask_without_repeats(self, mask), value);
    return self;
  }
  fill_record(self, mask).number(value, self.scalar_type()).write_to(self);
  return self;
}

at::Tensor& masked_fill_tensor_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  check_value(value);
  if (value.device().is_cpu()) return masked_fill_scalar_(self, mask, value.item());
  check_element_fits(value, self.scalar_type());
  check_broadcasts_to(self, mask);
  if (repeats_elements(self)) {
    check_mask("masked_fill_", mask);
    at::Tensor once = without_repeats(self);
    masked_fill_tensor_(once, mask_without_repeats(self, mask), value);
    return self;
  }
  fill_record(self, mask).tensor(value).write_to(self);
  return self;
}

at::Tensor masked_fill_scalar(const at::Tensor& self, const at::Tensor& mask,
                              const at::Scalar& value) {
  check_fits(value, self.scalar_type());
  return fill_record(self, mask)
      .number(value, self.scalar_type())
      .result(self.scalar_type(), broadcast_sizes(self, mask));
}

at::Tensor masked_fill_tensor(const at::Tensor& self, const at::Tensor& mask,
                              const at::Tensor& value) {
  check_value(value);
  if (value.device().is_cpu()) return masked_fill_scalar(self, mask, value.item());
  check_element_fits(value, self.scalar_type());
  return fill_record(self, mask)
      .tensor(value)
      .result(self.scalar_type(), broadcast_sizes(self, mask));
}

// The n-th selected element takes source's n-th element.
constexpr Operator kMaskedScatter{
    "aten::masked_scatter", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand x = e.operand(0);
      const Operand mask = b.broadcast_to(e.operand(1), x.dimensions());
      const Operand source = b.flatten(e.operand(2));
      const Operand counted = b.convert(b.flatten(mask), graph::ElementType::kS32);
      const Operand order = b.subtract(b.cumulative(counted, 0, graph::Reducer::kAdd), 1);
      const Operand taken = b.reshape(b.take(source, b.maximum(order, 0), 0), x.dimensions());
      e.result(b.select(mask, taken, x));
    }};

// How many elements the mask selects, which may be no more than source has.
constexpr Operator kSelectedCount{
    "aten::masked_scatter.count", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand mask = b.broadcast_to(e.operand(0), e.attributes.list());
      const Operand counted = b.convert(mask, graph::held(graph::ElementType::kS64));
      e.result(b.reduce(counted, graph::Reducer::kAdd, graph::all_dims(counted)));
    }};

constexpr Operator kTooManySelected{
    "masked_scatter: Number of elements of source < number of ones in mask; the device repeated "
    "the "
    "last one; got too many ones; check the mask",
    nullptr};

at::Tensor& masked_scatter_(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter_: expected self and source to have same dtypes but got ",
              self.scalar_type(), " and ", source.scalar_type());
  check_mask("masked_scatter_", mask);
  check_broadcasts_to(self, mask);
  if (self.numel() == 0) return self;
  const at::Tensor count =
      Record(kSelectedCount).tensor(mask).attribute(self.sizes()).result(at::kLong, {});
  check_index_bounds(kTooManySelected, count, source.numel() + 1);
  if (source.numel() == 0) return self;
  Record(kMaskedScatter).tensor(self).tensor(mask).tensor(source).write_to(self);
  return self;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("masked_fill_.Scalar", TORCH_FN(masked_fill_scalar_));
  m.impl("masked_fill_.Tensor", TORCH_FN(masked_fill_tensor_));
  m.impl("masked_fill.Scalar", TORCH_FN(masked_fill_scalar));
  m.impl("masked_fill.Tensor", TORCH_FN(masked_fill_tensor));
  m.impl("masked_scatter_", TORCH_FN(masked_scatter_));
}

}  // namespace
}  // namespace torch_pjrt::aten
