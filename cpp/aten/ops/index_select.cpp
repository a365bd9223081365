#include <ATen/WrapDimUtils.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "aten/checks.h"
#include "aten/number_range.h"
#include "aten/ops/indexing.h"

// Indexing one dimension with a list: index_select and the writes that go with it; take and put,
// which index the flat tensor.
namespace torch_pjrt::aten {
namespace {

using graph::Reducer;

// A 0-dim tensor as one of one dimension.
Operand at_least_1d(StableHloBuilder& b, Operand x) { return x.rank() ? x : b.reshape(x, {1}); }

constexpr Operator kIndexSelect{"aten::index_select", [](Emission& e) {
                                  StableHloBuilder& b = e.builder();
                                  const int64_t dim = e.attributes.integer();
                                  const graph::Type& type = e.result_type();
                                  if (type.element_count() == 0) return e.result(b.zeros(type));
                                  const Operand x = at_least_1d(b, e.operand(0));
                                  const Operand index =
                                      narrowed(b, b.flatten(e.operand(1)), x.dimension(dim));
                                  e.result(b.reshape(b.take(x, index, dim), type.dimensions));
                                }};

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_index_list("index_select", index);
  c10::DimVector sizes(self.sizes());
  if (self.dim() == 0) {
    TORCH_CHECK(index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ",
                index.numel(), " value(s)");
  } else {
    sizes[static_cast<size_t>(dim)] = index.numel();
  }
  const int64_t size = self.dim() ? self.size(dim) : 1;
  TORCH_CHECK_INDEX(size != 0 || index.numel() == 0, "index out of range in self");
  check_index_range(kIndexSelect, index, size, false);
  return Record(kIndexSelect)
      .tensor(self)
      .tensor(index)
      .attribute(dim)
      .result(self.scalar_type(), sizes);
}

// attributes: dim, reducer; operands: self, index, source and, scaled, alpha
template <bool kScaled>
void emit_slices(Emission& e) {
  StableHloBuilder& b = e.builder();
  const int64_t dim = e.attributes.integer();
  const Reducer reducer = static_cast<Reducer>(e.attributes.integer());
  const Operand x = at_least_1d(b, e.operand(0));
  const Operand index = narrowed(b, b.flatten(e.operand(1)), x.dimension(dim));
  graph::Dimensions sizes = x.dimensions();
  sizes[static_cast<size_t>(dim)] = index.dimension(0);
  Operand source = b.reshape(e.operand(2), sizes);
  if (kScaled) source = b.multiply(source, b.broadcast_to(e.operand(3), sizes));
  e.result(b.reshape(b.scatter_slices(x, index, source, dim, reducer), e.result_type().dimensions));
}

constexpr Operator kIndexAdd{"aten::index_add", emit_slices<false>};
constexpr Operator kIndexAddScaled{"aten::index_add.alpha", emit_slices<true>};
constexpr Operator kIndexCopy{"aten::index_copy", emit_slices<false>};

constexpr Operator kAddOutOfBounds{
    "index_add: an index is out of bounds; the device skipped its slice; got an index outside the "
    "dimension, expected 0 <= index < size; check the indices",
    nullptr};

at::Tensor write_slices(const Operator& op, const at::Tensor& self, int64_t dim,
                        const at::Tensor& index, const at::Tensor& source, Reducer reducer,
                        const at::Scalar* alpha = nullptr) {
  if (self.numel() == 0 || index.numel() == 0) return self.clone();
  const int64_t size = self.dim() ? self.size(dim) : 1;
  if (&op == &kIndexCopy) {
    check_index_range(op, index, size, false);
  } else {
    check_index_bounds(kAddOutOfBounds, index, size);
  }
  Record record(op);
  record.tensor(self).tensor(index).tensor(source);
  if (alpha) record.number(*alpha, self.scalar_type());
  return record.attribute(dim)
      .attribute(static_cast<int64_t>(reducer))
      .result(self.scalar_type(), self.sizes());
}

at::Tensor index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                     const at::Tensor& source, const at::Scalar& alpha) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_slices("index_add", self, dim, index, source);
  const bool plain = !alpha.isComplex() && alpha.toDouble() == 1.0;
  return write_slices(plain ? kIndexAdd : kIndexAddScaled, self, dim, index, source, Reducer::kAdd,
                      plain ? nullptr : &alpha);
}

at::Tensor index_copy(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                      const at::Tensor& source) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong,
                    "index_copy_(): Expected a long tensor for index, but got ",
                    index.scalar_type());
  check_slices("index_copy_", self, dim, index, source);
  return write_slices(kIndexCopy, self, dim, index, source, Reducer::kOverwrite);
}

// operands: self, index, value (0-dim); attributes: dim
constexpr Operator kIndexFill{
    "aten::index_fill", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const int64_t dim = e.attributes.integer();
      const Operand x = at_least_1d(b, e.operand(0));
      const int64_t size = x.dimension(dim);
      const Operand index = narrowed(b, b.wrap_indices(b.flatten(e.operand(1)), size), size);
      graph::Dimensions sizes = x.dimensions();
      sizes[static_cast<size_t>(dim)] = index.dimension(0);
      const Operand value = b.broadcast_to(b.convert(e.operand(2), x.element()), sizes);
      e.result(b.reshape(b.scatter_slices(x, index, value, dim, Reducer::kOverwrite),
                         e.result_type().dimensions));
    }};

template <typename AddValue>
at::Tensor& index_fill(at::Tensor& self, int64_t dim, const at::Tensor& index, AddValue add_value) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong,
                    "index_fill_(): Expected dtype int64 for index.");
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  check_index_range(kIndexFill, index, self.dim() ? self.size(dim) : 1, true);
  if (self.numel() == 0 || index.numel() == 0) return self;
  // Where an expanded dimension repeats one slice, any index fills that one.
  const at::Tensor target = repeats_elements(self) ? without_repeats(self) : self;
  const bool is_repeated = self.dim() && target.size(dim) != self.size(dim);
  Record record(kIndexFill);
  record.tensor(target).tensor(is_repeated ? at::zeros_like(index) : index).attribute(dim);
  add_value(record);
  record.write_to(target);
  return self;
}

at::Tensor& index_fill_scalar(at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Scalar& value) {
  TORCH_CHECK(at::isComplexType(self.scalar_type()) || !value.isComplex(),
              "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  check_fits(value, self.scalar_type());
  return index_fill(self, dim, index,
                    [&](Record& record) { record.number(value, self.scalar_type()); });
}

at::Tensor& index_fill_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "Only supports 0-dimension value tensor, but got tensor with ",
              value.dim(), " dimensions.");
  if (value.device().is_cpu()) return index_fill_scalar(self, dim, index, value.item());
  check_element_fits(value, self.scalar_type());
  return index_fill(self, dim, index, [&](Record& record) { record.tensor(value); });
}

constexpr Operator kTake{
    "aten::take", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      if (e.result_type().element_count() == 0) return e.result(b.zeros(e.result_type()));
      const Operand x = b.flatten(e.operand(0));
      const int64_t size = x.dimension(0);
      e.result(b.take(x, narrowed(b, b.wrap_indices(e.operand(1), size), size), 0));
    }};

at::Tensor take(const at::Tensor& self, const at::Tensor& index) {
  TORCH_CHECK(index.scalar_type() == at::kLong,
              "take(): Expected a long tensor for index, but got ", index.scalar_type());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0,
                    "take(): tried to take from an empty tensor");
  check_index_range(kTake, index, self.numel(), true);
  Record record(kTake);
  record.tensor(self).tensor(index);
  return record.result(self.scalar_type(), index.sizes());
}

// attributes: accumulate
constexpr Operator kPut{
    "aten::put", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const bool accumulate = e.attributes.boolean();
      const Operand x = b.flatten(e.operand(0));
      const int64_t size = x.dimension(0);
      const Operand index = narrowed(b, b.wrap_indices(b.flatten(e.operand(1)), size), size);
      const Operand put = b.scatter_slices(x, index, b.flatten(e.operand(2)), 0,
                                           accumulate ? Reducer::kAdd : Reducer::kOverwrite);
      e.result(b.reshape(put, e.result_type().dimensions));
    }};

at::Tensor& put_(at::Tensor& self, const at::Tensor& index, const at::Tensor& source,
                 bool accumulate) {
  TORCH_CHECK(index.scalar_type() == at::kLong,
              "put_(): Expected a long tensor for index, but got ", index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "put_(): self and source expected to have the same dtype, but got self.dtype = ",
              self.scalar_type(), " and source.dtype = ", source.scalar_type());
  TORCH_CHECK(index.numel() == source.numel(),
              "put_(): Expected source and index to have the same number of elements, but got "
              "source.numel() = ",
              source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0,
                    "put_(): Tried to put elements into an empty tensor");
  if (index.numel() == 0) return self;
  check_index_range(kPut, index, self.numel(), true);
  Record(kPut).tensor(self).tensor(index).tensor(source).attribute(accumulate).write_to(self);
  return self;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("index_select", TORCH_FN(index_select));
  m.impl("index_add", TORCH_FN(index_add));
  m.impl("index_copy", TORCH_FN(index_copy));
  m.impl("index_fill_.int_Scalar", TORCH_FN(index_fill_scalar));
  m.impl("index_fill_.int_Tensor", TORCH_FN(index_fill_tensor));
  m.impl("take", TORCH_FN(take));
  m.impl("put_", TORCH_FN(put_));
}

}  // namespace
}  // namespace torch_pjrt::aten
