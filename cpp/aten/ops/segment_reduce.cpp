#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReductionType.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/rounding.h"
#include "aten/ops/search.h"

// Reductions of runs of a tensor along an axis, given by their lengths or by where they begin.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using at::native::ReductionType;
using graph::Reducer;
using OptionalTensor = const std::optional<at::Tensor>&;
using OptionalScalar = const std::optional<at::Scalar>&;

// The data as [rows * places, inner], the result as [rows * segments, inner].
struct Segments {
  int64_t rows = 1, places, segments, inner = 1;
  Operand length;  // [rows * segments]
  Operand index;   // of every place's segment, [rows * places]; beyond the end where it has none

  // `bounds` are lengths [..., segments], or offsets [..., segments + 1]
  Segments(Builder& b, const graph::Dimensions& data, Operand bounds, bool offsets) {
    const int64_t axis = bounds.rank() - 1, rank = static_cast<int64_t>(data.size());
    for (int64_t d = 0; d < axis; ++d) rows *= data[d];
    places = data[axis];
    for (int64_t d = axis + 1; d < rank; ++d) inner *= data[d];
    segments = bounds.dimension(-1) - (offsets ? 1 : 0);

    const Operand given = b.reshape(b.convert(bounds, ElementType::kS32), {rows, -1});
    const Operand ends =
        offsets ? b.slice_dim(given, 1, 1, segments + 1) : b.cumulative(given, 1, Reducer::kAdd);
    length = offsets ? b.subtract(ends, b.slice_dim(given, 1, 0, segments)) : given;
    length = b.flatten(length);
    if (places == 0) return;
    const Operand place = b.iota({ElementType::kS32, {rows, places}}, 1);
    const Operand found = rows == 1 ? emit_search(b, b.flatten(ends), place, true)
                                    : emit_search(b, ends, place, true);
    Operand within = b.less(found, segments);
    if (offsets) {
      const Operand first = b.slice_dim(given, 1, 0, 1);
      within = b.bit_and(within, b.greater_equal(place, b.broadcast_to(first, place.dimensions())));
    }
    const Operand row = b.iota(place.type(), 0);
    const Operand all = b.add(b.multiply(row, segments), found);
    index = b.flatten(b.select(within, all, rows * segments));
  }

  // Adds the places up, or multiplies them, or...
  Operand combined(Builder& b, Operand before, Operand places, Reducer reducer) const {
    return b.scatter_slices(before, index, places, 0, reducer);
  }
  // At every place what its segment has.
  Operand of_segment(Builder& b, Operand x) const { return b.take(x, index, 0); }
  Operand wide(Builder& b, Operand x) const {
    return b.broadcast_in_dim(x, {x.dimension(0), inner}, {0});
  }
};

double start_of(ReductionType kind) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (kind == ReductionType::MAX) return -kInfinite;
  if (kind == ReductionType::MIN) return kInfinite;
  return kind == ReductionType::PROD ? 1 : 0;
}

Reducer reducer_of(ReductionType kind) {
  if (kind == ReductionType::MAX) return Reducer::kMaximum;
  if (kind == ReductionType::MIN) return Reducer::kMinimum;
  return kind == ReductionType::PROD ? Reducer::kMultiply : Reducer::kAdd;
}

// operands: data, bounds, initial value if given; attributes: kind, offsets, initial value given
constexpr Operator kSegmentReduce{
    "aten::segment_reduce", [](Emission& e) {
      Builder& b = e.builder();
      const graph::Type& type = e.result_type();
      const auto kind = static_cast<ReductionType>(e.attributes.integer());
      const bool offsets = e.attributes.boolean(), started = e.attributes.boolean();
      const Operand data = e.operand(0);
      const Segments s(b, data.dimensions(), e.operand(1), offsets);
      const graph::Dimensions flat{s.rows * s.segments, s.inner};
      // In the data's own type, each step rounded, as the cpu does.
      Operand x = started ? b.broadcast_to(b.convert(e.operand(2), type.element), flat)
                          : b.filled({type.element, flat}, start_of(kind));
      if (s.places > 0) {
        x = s.combined(b, x, b.reshape(data, {-1, s.inner}), reducer_of(kind));
      }
      if (kind == ReductionType::MEAN) {
        const ElementType working = compute_type(type.element);
        const Operand count = rounded_to(b, b.convert(s.wide(b, s.length), working), type.element);
        const Operand sum = b.convert(x, working);
        const Operand none = started ? sum : b.filled_like(sum, NAN);
        x = b.select(b.greater(count, 0), b.divide(sum, count), none);
      }
      finish(e, b.reshape(x, type.dimensions));
    }};

// operands: grad, output, data, bounds, initial value if given; attributes: as forward
constexpr Operator kSegmentGradient{
    "aten::_segment_reduce_backward", [](Emission& e) {
      Builder& b = e.builder();
      const graph::Type& type = e.result_type();
      const auto kind = static_cast<ReductionType>(e.attributes.integer());
      const bool offsets = e.attributes.boolean(), started = e.attributes.boolean();
      const ElementType working = compute_type(type.element);
      const Operand given = e.operand(2);
      const Segments s(b, given.dimensions(), e.operand(3), offsets);
      const auto flat = [&](Operand x) { return b.convert(b.reshape(x, {-1, s.inner}), working); };
      const auto rounded = [&](Operand x) { return rounded_to(b, x, type.element); };
      const Operand data = flat(given), grads = flat(e.operand(0)), outputs = flat(e.operand(1));
      const Operand grad = s.of_segment(b, grads);
      const graph::Dimensions results = grads.dimensions();
      const auto counted = [&](Operand flags) {
        const Operand ones = b.convert(flags, ElementType::kS32);
        return s.of_segment(
            b, s.combined(b, b.zeros({ElementType::kS32, results}), ones, Reducer::kAdd));
      };
      const auto as_number = [&](Operand count) { return rounded(b.convert(count, working)); };

      Operand x = grad;
      if (kind == ReductionType::MEAN) {
        x = b.divide(grad, as_number(s.of_segment(b, s.wide(b, s.length))));
      } else if (kind == ReductionType::MAX || kind == ReductionType::MIN) {
        const Operand found = b.bit_or(b.is_nan(data), b.equal(data, s.of_segment(b, outputs)));
        const Operand count = counted(found);
        // The cpu shares what is positive only.
        const Operand shared = b.bit_and(b.greater(count, 1), b.greater(grad, 0));
        x = b.select(shared, b.divide(grad, as_number(count)), grad);
        x = b.select(found, x, 0);
      } else if (kind == ReductionType::PROD) {
        // A zero's or NaN's gradient is the product of the others: of those that are neither, and
        // the rest if there is another one of them.
        const Operand zero = b.equal(data, 0), nan = b.is_nan(data), special = b.bit_or(zero, nan);
        const Operand first = started
                                  ? b.broadcast_to(b.convert(e.operand(4), type.element), results)
                                  : b.ones({type.element, results});
        const Operand ordinary = b.convert(b.select(special, 1, data), type.element);
        const Operand product = s.combined(b, first, ordinary, Reducer::kMultiply);
        Operand others = b.convert(s.of_segment(b, product), working);
        const auto own = [&](Operand flags) { return b.convert(flags, ElementType::kS32); };
        const Operand more_zeros = b.greater(counted(zero), own(zero));
        const Operand more_nans = b.greater(counted(nan), own(nan));
        others = b.select(more_zeros, b.multiply(others, 0), others);
        others = b.select(more_nans, NAN, others);
        const Operand whole = rounded(b.multiply(grad, s.of_segment(b, outputs)));
        x = b.select(special, b.multiply(grad, others), b.divide(whole, data));
      }
      const Operand within = s.wide(b, b.less(s.index, s.rows * s.segments));
      finish(e, b.reshape(b.select(within, x, 0), type.dimensions));
    }};

constexpr Operator kNegative{
    "segment_reduce: a segment has a negative length; got lengths that contains negative value, or "
    "decreasing offsets; check them",
    [](Emission& e) { e.result(any(e.builder(), e.operand(0))); }};

constexpr Operator kSums{
    "segment_reduce: Expected all rows of lengths along axis to sum to the size of the data; got "
    "another sum; check the lengths, or say unsafe",
    [](Emission& e) { e.result(any(e.builder(), e.operand(0))); }};

// What both directions record, with PyTorch's checks.
struct Bounds {
  at::Tensor tensor;
  bool offsets;
  int64_t axis, segments = 0;

  Bounds(const at::Tensor& data, OptionalTensor lengths, OptionalTensor starts, int64_t given_axis)
      : offsets(starts && starts->defined()), axis(at::maybe_wrap_dim(given_axis, data.dim())) {
    TORCH_CHECK(offsets || (lengths && lengths->defined()),
                "segment_reduce(): Either lengths or offsets must be defined.");
    tensor = offsets ? *starts : *lengths;
    const char* name = offsets ? "offsets" : "lengths";
    TORCH_CHECK(data.device() == tensor.device(), "segment_reduce(): data and ", name,
                " are on different devices; got ", data.device(), " and ", tensor.device());
    TORCH_CHECK(data.dim() >= tensor.dim(), "segment_reduce(): ", name,
                " has more dimensions than the data; got ", tensor.dim(), ", expected at most ",
                data.dim());
    TORCH_CHECK(axis == tensor.dim() - 1,
                "segment_reduce(): Expected axis to be the last dimension"
                " of ",
                name, " but got ", axis, ".");
    TORCH_CHECK(tensor.sizes().slice(0, axis) == data.sizes().slice(0, axis),
                "segment_reduce(): rows of ", name, " are not those of the data; got sizes ",
                tensor.sizes(), " for data of sizes ", data.sizes());
    const c10::ScalarType index = tensor.scalar_type(), dtype = data.scalar_type();
    TORCH_CHECK_NOT_IMPLEMENTED(index == at::kInt || index == at::kLong,
                                "\"_segment_reduce_cpu\" not implemented for ", name, " of '",
                                index, "'");
    TORCH_CHECK_NOT_IMPLEMENTED(data.is_floating_point(),
                                "\"_segment_reduce_cpu\" not implemented for '", dtype, "'");
    segments = tensor.size(axis) - (offsets ? 1 : 0);
    TORCH_CHECK(segments >= 0, "segment_reduce(): offsets are empty; expected one at least");
  }

  at::Tensor record(Record& record, ReductionType kind, OptionalScalar initial,
                    c10::ScalarType dtype, at::IntArrayRef sizes) const {
    record.tensor(tensor);
    if (initial) record.number(*initial, dtype);
    record.attribute(static_cast<int64_t>(kind)).attribute(offsets).attribute(initial.has_value());
    return record.result(dtype, sizes);
  }
};

at::Tensor segment_reduce(const at::Tensor& data, std::string_view reduce, OptionalTensor lengths,
                          OptionalTensor indices, OptionalTensor starts, int64_t given_axis,
                          bool unsafe, OptionalScalar initial) {
  TORCH_CHECK(!indices || !indices->defined(),
              "segment_reduce(): indices based reduction is not supported yet.");
  const ReductionType kind = at::native::get_reduction_enum(reduce);
  const Bounds bounds(data, lengths, starts, given_axis);
  const at::Tensor& given = bounds.tensor;
  if (bounds.offsets) {
    check_never(kNegative, given.diff().lt(0));
  } else {
    check_never(kNegative, given.lt(0));
    TORCH_CHECK(unsafe || given.numel() > 0, "segment_reduce(): lengths are empty; expected some");
    if (!unsafe) check_never(kSums, given.sum({-1}).ne(data.size(bounds.axis)));
  }
  c10::DimVector sizes(data.sizes());
  sizes[bounds.axis] = bounds.segments;
  if (c10::multiply_integers(sizes) == 0) return data.new_empty(sizes);
  Record record(kSegmentReduce);
  record.tensor(data);
  return bounds.record(record, kind, initial, data.scalar_type(), sizes);
}

at::Tensor segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output,
                                   const at::Tensor& data, std::string_view reduce,
                                   OptionalTensor lengths, OptionalTensor starts,
                                   int64_t given_axis, OptionalScalar initial) {
  const ReductionType kind = at::native::get_reduction_enum(reduce);
  const Bounds bounds(data, lengths, starts, given_axis);
  if (data.numel() == 0 || output.numel() == 0) return at::zeros(data.sizes(), grad.options());
  Record record(kSegmentGradient);
  record.tensors({grad, output, data});
  return bounds.record(record, kind, initial, grad.scalar_type(), data.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("segment_reduce", TORCH_FN(segment_reduce));
  m.impl("_segment_reduce_backward", TORCH_FN(segment_reduce_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
