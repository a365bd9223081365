#include <ATen/WrapDimUtils.h>
#include <ATen/native/ScatterGatherChecks.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/checks.h"
#include "aten/number_range.h"
#include "aten/ops/indexing.h"

// Indexing one dimension with an index for every element: gather and the scatters.
namespace torch_pjrt::aten {
namespace {

using graph::Reducer;

Operand at_least_1d(StableHloBuilder& b, Operand x) { return x.rank() ? x : b.reshape(x, {1}); }

constexpr Operator kOutOfBounds{
    "gather or scatter: an index is out of bounds; the device read or wrote another element "
    "instead; got an index outside the dimension, expected 0 <= index < size; check the indices",
    nullptr};

int64_t size_of(const at::Tensor& tensor, int64_t dim) {
  return tensor.dim() ? tensor.size(dim) : 1;
}

constexpr Operator kGather{
    "aten::gather", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const int64_t dim = e.attributes.integer();
      const Operand x = at_least_1d(b, e.operand(0));
      const Operand index = narrowed(b, at_least_1d(b, e.operand(1)), x.dimension(dim));
      e.result(b.reshape(b.gather_elements(x, index, dim), e.result_type().dimensions));
    }};

at::Tensor gather(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool sparse_grad) {
  (void)sparse_grad;
  dim = at::maybe_wrap_dim(dim, self.dim());
  if (index.numel() == 0) return at::empty(index.sizes(), self.options());
  at::native::scatter_gather_dtype_check("gather", self, index);
  at::native::gather_shape_check(self, dim, index);
  TORCH_CHECK_INDEX(size_of(self, dim) != 0, "index is out of bounds for dimension ", dim,
                    " with size 0");
  check_index_bounds(kOutOfBounds, index, size_of(self, dim));
  return Record(kGather).tensor(self).tensor(index).attribute(dim).result(self.scalar_type(),
                                                                          index.sizes());
}

// operands: self, index, source (an array at least as large as the index, or one number);
// attributes: dim, reducer
constexpr Operator kScatter{
    "aten::scatter", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const int64_t dim = e.attributes.integer();
      const Reducer reducer = static_cast<Reducer>(e.attributes.integer());
      const Operand x = at_least_1d(b, e.operand(0));
      const Operand index = narrowed(b, at_least_1d(b, e.operand(1)), x.dimension(dim));
      Operand source = e.operand(2);
      if (source.rank() == 0) {
        source = b.broadcast_to(source, index.dimensions());
      } else {
        source = b.slice(source, graph::Dimensions(static_cast<size_t>(source.rank()), 0),
                         index.dimensions());
      }
      e.result(b.reshape(b.scatter_elements(x, index, source, dim, reducer),
                         e.result_type().dimensions));
    }};

Reducer reducer_named(std::string_view name) {
  if (name == "add" || name == "sum" || name == "mean") return Reducer::kAdd;
  if (name == "multiply" || name == "prod") return Reducer::kMultiply;
  if (name == "amax") return Reducer::kMaximum;
  if (name == "amin") return Reducer::kMinimum;
  TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", name,
              ".");
}

// Checks; then a record of `op` with self and index as operands, or none if nothing is written.
std::optional<Record> scatter_record(const Operator& op, std::string name, const at::Tensor& self,
                                     int64_t dim, const at::Tensor& index,
                                     const std::optional<at::Tensor>& source) {
  at::native::scatter_gather_dtype_check(name, self, index, source);
  at::native::scatter_shape_check(self, dim, index, source);
  if (index.numel() == 0) return std::nullopt;
  TORCH_CHECK_INDEX(size_of(self, dim) != 0, "index is out of bounds for dimension ", dim,
                    " with size 0");
  check_index_bounds(kOutOfBounds, index, size_of(self, dim));
  Record record(op);
  record.tensor(self).tensor(index);
  return record;
}

at::Tensor scatter_with(std::string name, const at::Tensor& self, int64_t dim,
                        const at::Tensor& index, const at::Tensor& source, Reducer reducer) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto record = scatter_record(kScatter, std::move(name), self, dim, index, source);
  if (!record) return self.clone();
  return record->tensor(source)
      .attribute(dim)
      .attribute(static_cast<int64_t>(reducer))
      .result(self.scalar_type(), self.sizes());
}

at::Tensor scatter_number(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                          const at::Scalar& value, Reducer reducer) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto record = scatter_record(kScatter, "scatter", self, dim, index, std::nullopt);
  if (!record) return self.clone();
  check_fits(value, self.scalar_type());
  return record->number(value, self.scalar_type())
      .attribute(dim)
      .attribute(static_cast<int64_t>(reducer))
      .result(self.scalar_type(), self.sizes());
}

Reducer scatter_reducer(std::string_view reduce) {
  TORCH_CHECK(reduce == "add" || reduce == "multiply",
              "reduce argument must be either add or multiply.");
  return reducer_named(reduce);
}

at::Tensor scatter_src(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                       const at::Tensor& src) {
  return scatter_with("scatter", self, dim, index, src, Reducer::kOverwrite);
}

at::Tensor scatter_value(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                         const at::Scalar& value) {
  return scatter_number(self, dim, index, value, Reducer::kOverwrite);
}

at::Tensor scatter_reduce_src(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Tensor& src, std::string_view reduce) {
  return scatter_with("scatter", self, dim, index, src, scatter_reducer(reduce));
}

at::Tensor scatter_reduce_value(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                                const at::Scalar& value, std::string_view reduce) {
  return scatter_number(self, dim, index, value, scatter_reducer(reduce));
}

at::Tensor scatter_add(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                       const at::Tensor& src) {
  return scatter_with("scatter_add", self, dim, index, src, Reducer::kAdd);
}

// attributes: dim, reducer, mean, include_self. With kSlices the index is a list (index_reduce).
template <bool kSlices>
void emit_reduced(Emission& e) {
  StableHloBuilder& b = e.builder();
  const int64_t dim = e.attributes.integer();
  const Reducer reducer = static_cast<Reducer>(e.attributes.integer());
  const bool mean = e.attributes.boolean();
  const bool include_self = e.attributes.boolean();
  Operand x = at_least_1d(b, e.operand(0));
  const Operand index = narrowed(b, at_least_1d(b, e.operand(1)), x.dimension(dim));
  Operand source = at_least_1d(b, e.operand(2));
  if (!kSlices) {
    source = b.slice(source, graph::Dimensions(static_cast<size_t>(source.rank()), 0),
                     index.dimensions());
  }
  auto scatter = [&](Operand into, Operand updates, Reducer how) {
    return kSlices ? b.scatter_slices(into, index, updates, dim, how)
                   : b.scatter_elements(into, index, updates, dim, how);
  };
  if (!include_self) {
    const Operand identity = b.broadcast_to(b.identity(reducer, x.element()), source.dimensions());
    x = scatter(x, identity, Reducer::kOverwrite);
  }
  Operand reduced = scatter(x, source, reducer);
  if (mean) {
    // Counts in a type that counts exactly.
    const graph::Type counts{graph::ElementType::kS32, x.dimensions()};
    Operand count = include_self ? b.ones(counts) : b.zeros(counts);
    count = scatter(count, b.ones({graph::ElementType::kS32, source.dimensions()}), Reducer::kAdd);
    count = b.convert(b.maximum(count, 1), x.element());
    const Operand quotient = b.divide(reduced, count);
    Operand rounded = quotient;
    if (pjrt::is_signed_integer(x.element())) {  // rounds down, as PyTorch
      const Operand inexact = b.not_equal(b.multiply(quotient, count), reduced);
      const Operand down = b.bit_and(inexact, b.less(reduced, 0));
      rounded = b.select(down, b.subtract(quotient, 1), quotient);
    }
    reduced = rounded;
  }
  e.result(b.reshape(reduced, e.result_type().dimensions));
}

constexpr Operator kScatterReduce{"aten::scatter_reduce", emit_reduced<false>};
constexpr Operator kIndexReduce{"aten::index_reduce", emit_reduced<true>};

at::Tensor scatter_reduce_two(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                              const at::Tensor& src, std::string_view reduce, bool include_self) {
  const Reducer reducer = reducer_named(reduce);
  dim = at::maybe_wrap_dim(dim, self.dim());
  auto record = scatter_record(kScatterReduce, "scatter_reduce", self, dim, index, src);
  if (!record) return self.clone();
  record->tensor(src).attribute(dim).attribute(static_cast<int64_t>(reducer));
  return record->attribute(reduce == "mean")
      .attribute(include_self)
      .result(self.scalar_type(), self.sizes());
}

at::Tensor index_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                        const at::Tensor& source, std::string_view reduce, bool include_self) {
  TORCH_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin",
              "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ",
              reduce, ".");
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_slices("index_reduce", self, dim, index, source);
  if (self.numel() == 0 || index.numel() == 0) return self.clone();
  check_index_range(kIndexReduce, index, size_of(self, dim), false);
  return Record(kIndexReduce)
      .tensor(self)
      .tensor(index)
      .tensor(source)
      .attribute(dim)
      .attribute(static_cast<int64_t>(reducer_named(reduce)))
      .attribute(reduce == "mean")
      .attribute(include_self)
      .result(self.scalar_type(), self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("index_reduce", TORCH_FN(index_reduce));
  m.impl("gather", TORCH_FN(gather));
  m.impl("scatter.src", TORCH_FN(scatter_src));
  m.impl("scatter.value", TORCH_FN(scatter_value));
  m.impl("scatter.reduce", TORCH_FN(scatter_reduce_src));
  m.impl("scatter.value_reduce", TORCH_FN(scatter_reduce_value));
  m.impl("scatter_add", TORCH_FN(scatter_add));
  m.impl("scatter_reduce.two", TORCH_FN(scatter_reduce_two));
}

}  // namespace
}  // namespace torch_pjrt::aten
