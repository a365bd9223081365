#include <ATen/ExpandUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index.h>
#include <torch/library.h>

#include "aten/number_range.h"
#include "aten/ops/indexing.h"

// Advanced indexing: writing self[indices].
namespace torch_pjrt::aten {
namespace {

// operands: self, values, indices; attributes: accumulate, the plan
constexpr Operator kIndexPut{
    "aten::index_put", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand x = e.operand(0);
      const bool accumulate = e.attributes.boolean();
      const EmittedIndex index = emit_index(e, 2, x);
      const graph::Dimensions update_sizes(e.attributes.list());
      graph::ScatterDimensions d;
      d.update_window = index.window;
      d.inserted_window = index.dims;
      d.scatter_dims_to_operand = index.dims;
      d.index_vector = index.vectors.rank() - 1;
      const Operand updates = b.broadcast_to(e.operand(1), update_sizes);
      e.result(b.scatter(x, index.vectors, updates, d,
                         accumulate ? graph::Reducer::kAdd : graph::Reducer::kOverwrite));
    }};

// operands: self, values, mask; attributes: accumulate, sizes of the mask and of the values in
// self's dimensions
constexpr Operator kMaskedPut{
    "aten::index_put.mask", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand x = e.operand(0);
      const graph::Dimensions& sizes = x.dimensions();
      const bool accumulate = e.attributes.boolean();
      Operand mask = b.reshape(e.operand(2), e.attributes.list());
      mask = b.broadcast_to(b.convert(mask, graph::ElementType::kPred), sizes);
      Operand values = b.broadcast_to(b.reshape(e.operand(1), e.attributes.list()), sizes);
      if (accumulate) values = b.add(x, values);
      e.result(b.select(mask, values, x));
    }};

// With one mask and values that are the same for every element it selects, the write is a select.
// False when the values' shape says otherwise.
bool put_by_mask(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                 const at::Tensor& values, bool accumulate) {
  int64_t position = -1;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor> index = indices.get(i);
    if (!index || !index->defined()) continue;
    if (position >= 0 || !is_mask(*index)) return false;
    position = static_cast<int64_t>(i);
  }
  if (position < 0) return false;
  const at::Tensor mask = indices.get(static_cast<size_t>(position))->to(self.device());
  const int64_t after = self.dim() - position - mask.dim();
  if (mask.dim() == 0 || after < 0) return false;
  if (mask.sizes() !=
      self.sizes().slice(static_cast<size_t>(position), static_cast<size_t>(mask.dim()))) {
    return false;
  }
  // values: [before..., selected, after...]
  if (values.dim() > position + 1 + after) return false;
  if (values.dim() > after && values.size(-after - 1) != 1) return false;
  c10::DimVector mask_sizes(static_cast<size_t>(position), 1), value_sizes;
  mask_sizes.append(mask.sizes().begin(), mask.sizes().end());
  mask_sizes.append(static_cast<size_t>(after), 1);
  const int64_t inner = std::min(after, values.dim());
  for (int64_t d = 0; d < values.dim() - inner - 1; ++d) value_sizes.push_back(values.size(d));
  value_sizes.append(static_cast<size_t>(mask.dim() + after - inner), 1);
  for (int64_t d = values.dim() - inner; d < values.dim(); ++d) {
    value_sizes.push_back(values.size(d));
  }
  if (!at::is_expandable_to(value_sizes, self.sizes())) return false;
  Record record(kMaskedPut);
  record.tensor(self).tensor(values).tensor(mask).attribute(accumulate);
  record.attribute(at::IntArrayRef(mask_sizes)).attribute(at::IntArrayRef(value_sizes));
  record.write_to(self);
  return true;
}

// An expanded tensor's elements are numbered, and written by the numbers that the indices select.
void put_through_repeats(const at::Tensor& self,
                         const c10::List<std::optional<at::Tensor>>& indices,
                         const at::Tensor& values, bool accumulate) {
  const at::Tensor once = without_repeats(self);
  const at::Tensor numbers = at::arange(once.numel(), self.options().dtype(at::kLong));
  const at::Tensor places = at::index(numbers.view(once.sizes()).expand(self.sizes()), indices);
  TORCH_CHECK(at::is_expandable_to(values.sizes(), places.sizes()),
              "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", places.sizes());
  at::Tensor flat = once.clone(at::MemoryFormat::Contiguous).view(-1);
  flat.index_put_({places.reshape(-1)}, values.expand(places.sizes()).reshape(-1), accumulate);
  once.copy_(flat.view(once.sizes()));
}

bool is_one_mask(const c10::List<std::optional<at::Tensor>>& indices) {
  int64_t masks = 0, others = 0;
  for (const std::optional<at::Tensor>& index : indices) {
    if (!index || !index->defined()) continue;
    const bool is_mask = index->scalar_type() == at::kBool || index->scalar_type() == at::kByte;
    ++(is_mask ? masks : others);
  }
  return masks == 1 && others == 0;
}

// One value for what a mask selects may have any dtype, as for masked_fill.
at::Tensor fitted(const at::Tensor& value, const at::Tensor& self) {
  if (value.device().is_cpu()) {
    check_fits(value.item(), self.scalar_type());
  } else {
    check_element_fits(value, self.scalar_type());
  }
  return value.reshape({}).to(self.options());
}

at::Tensor& index_put_impl_(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                            const at::Tensor& given, bool accumulate, bool unsafe) {
  (void)unsafe;
  const bool fills = !accumulate && given.numel() == 1 && is_one_mask(indices);
  const at::Tensor values = fills ? fitted(given, self) : given;
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(), " (got ",
                    indices.size(), ")");
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ",
              self.scalar_type(), " for the destination and ", values.scalar_type(),
              " for the source.");
  if (repeats_elements(self)) {
    put_through_repeats(self, indices, values, accumulate);
    return self;
  }
  if (put_by_mask(self, indices, values, accumulate)) return self;
  const IndexPlan plan = plan_index(kIndexPut, self, indices);
  TORCH_CHECK(at::is_expandable_to(values.sizes(), plan.sizes),
              "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(plan.sizes));
  if (c10::multiply_integers(plan.sizes) == 0) return self;
  Record record(kIndexPut);
  record.tensor(self).tensor(values).attribute(accumulate);
  record_plan(record, plan);
  record.attribute(at::IntArrayRef(plan.sizes)).write_to(self);
  return self;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("_index_put_impl_", TORCH_FN(index_put_impl_)); }

}  // namespace
}  // namespace torch_pjrt::aten
