#include <ATen/ops/diff.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/number_range.h"
#include "aten/ops/rounding.h"
#include "aten/ops/search.h"
#include "aten/ops/spacing.h"

// Histograms of points in one dimension or several, with the edges of their bins.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Reducer;
using OptionalRange = std::optional<at::ArrayRef<double>>;
using OptionalTensor = const std::optional<at::Tensor>&;

// operands: the numbers or least and greatest, number of bins; attribute: whether the ends are
// those of the numbers
constexpr Operator kEdges{"aten::_histogramdd_bin_edges", [](Emission& e) {
                            Builder& b = e.builder();
                            const bool from_data = e.attributes.boolean();
                            const int64_t steps = e.result_type().dimensions[0];
                            const ElementType element = e.result_type().element;
                            if (!from_data) {
                              return finish(e, evenly_spaced(b, e.operand(0), e.operand(1),
                                                             e.operand(2), steps, element));
                            }
                            const Operand x = e.operand(0);
                            Operand low = b.reduce(x, Reducer::kMinimum, {0});
                            Operand high = b.reduce(x, Reducer::kMaximum, {0});
                            const Operand one_value = b.equal(low, high);
                            low = b.select(one_value, b.subtract(low, 0.5), low);
                            high = b.select(one_value, b.add(high, 0.5), high);
                            finish(e, evenly_spaced(b, low, high, e.operand(1), steps, element));
                          }};

constexpr Operator kNoEdges{
    "histogram: the range of the input is not finite; got an infinity or NaN, expected finite "
    "numbers; give a range",
    [](Emission& e) {
      Builder& b = e.builder();
      e.result(any(b, b.bit_not(b.is_finite(e.operand(0)))));
    }};

std::vector<at::Tensor> edges_of(const at::Tensor& points, at::IntArrayRef bins,
                                 const OptionalRange& range) {
  const c10::ScalarType dtype = points.scalar_type();
  const int64_t n = points.size(-1);
  const at::Tensor flat = points.reshape({-1, n});
  const bool from_data = !range && flat.numel() > 0;
  if (range) {
    TORCH_CHECK(static_cast<int64_t>(range->size()) == 2 * n, "torch.histogramdd: for a ", n,
                "-dimensional histogram range should have ", 2 * n, " elements, but got ",
                range->size());
  }
  if (from_data) {
    TORCH_CHECK_NOT_IMPLEMENTED(dtype == at::kFloat || dtype == at::kDouble,
                                "\"histogramdd\" not implemented for '", dtype, "'");
    check_never(kNoEdges, flat);
  }
  TORCH_CHECK(n == static_cast<int64_t>(bins.size()),
              "histogramdd: The size of bins must be equal to the innermost dimension of the "
              "input.");
  std::vector<at::Tensor> edges;
  for (int64_t d = 0; d < n; ++d) {
    TORCH_CHECK(bins[d] > 0, "torch.histogram(): bins must be > 0, but got ", bins[d],
                " for dimension ", d);
    Record record(kEdges);
    record.on(executor_of(points));
    if (from_data) {
      record.tensor(flat.select(1, d));
    } else {
      double low = range ? (*range)[2 * d] : 0, high = range ? (*range)[2 * d + 1] : 1;
      TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histogramdd: dimension ", d,
                  "'s range [", low, ", ", high, "] is not finite");
      TORCH_CHECK(low <= high, "torch.histogramdd: min should not exceed max, but got min ", low,
                  " max ", high, " for dimension ", d);
      if (low == high) {
        low -= 0.5;
        high += 0.5;
      }
      for (const double end : {low, high}) {
        check_fits(end, dtype);
        record.number(end, dtype);
      }
    }
    record.number(bins[d], dtype == at::kDouble ? at::kDouble : at::kFloat);
    edges.push_back(record.attribute(from_data).result(dtype, {bins[d] + 1}));
  }
  return edges;
}

// The bin of every x among evenly spaced edges: the quotient's, or a neighbour whose edges say so.
Operand bin_by_quotient(Builder& b, Operand edges, Operand x, ElementType element) {
  const int64_t bins = edges.dimension(0) - 1;
  const auto rounded = [&](Operand y) { return rounded_to(b, y, element); };
  const auto edge = [&](int64_t i) {
    return b.broadcast_to(b.select_index(edges, 0, i), x.dimensions());
  };
  const Operand distance = rounded(b.subtract(x, edge(0)));
  const Operand scaled = rounded(b.multiply(distance, rounded(b.filled_like(x, bins))));
  const Operand width = rounded(b.subtract(edge(bins), edge(0)));
  const Operand place = b.convert(rounded(b.divide(scaled, width)), ElementType::kS32);
  const Operand first = b.clamp(0, b.subtract(place, 1), bins - 1);
  const auto reaches = [&](int64_t offset) {
    const Operand at = b.minimum(b.add(first, offset), bins);
    return b.greater_equal(x, b.take(edges, at, 0));
  };
  const Operand third = b.bit_and(reaches(2), b.bit_and(b.greater(place, 0), b.less(place, bins)));
  const auto count = [&](Operand flag) { return b.convert(flag, ElementType::kS32); };
  const Operand found = b.select(reaches(1), b.add(count(third), 2), count(reaches(0)));
  return b.subtract(b.add(first, found), 1);
}

// operands: points [M, N], N lists of edges, weights [M] if given; attributes: whether edges are
// evenly spaced, weights given
constexpr Operator kHistogram{
    "aten::histogram", [](Emission& e) {
      Builder& b = e.builder();
      const graph::Type& type = e.result_type();
      const bool even = e.attributes.boolean(), weighted = e.attributes.boolean();
      const ElementType working = compute_type(type.element);
      const int64_t all = type.element_count();
      const Operand points = b.convert(e.operand(0), working);
      Operand bin, inside;
      for (int64_t d = 0; d < points.dimension(1); ++d) {
        const Operand x = b.select_index(points, 1, d);
        const Operand edges = b.convert(e.operand(1 + d), working);
        const int64_t bins = edges.dimension(0) - 1;
        const auto edge = [&](int64_t i) {
          return b.broadcast_to(b.select_index(edges, 0, i), x.dimensions());
        };
        const Operand within = b.bit_and(b.greater_equal(x, edge(0)), b.less_equal(x, edge(bins)));
        Operand place = even ? bin_by_quotient(b, edges, x, type.element)
                             : b.subtract(emit_search(b, edges, x, true), 1);
        place = b.clamp(0, place, bins - 1);  // the last bin has its right edge
        bin = d == 0 ? place : b.add(b.multiply(bin, bins), place);
        inside = d == 0 ? within : b.bit_and(inside, within);
      }
      bin = b.select(inside, bin, all);  // beyond the end: not counted
      const Operand added =
          weighted ? b.convert(e.operand(e.operand_count() - 1), working) : b.ones_like(bin);
      const Operand none = b.zeros({added.element(), {all}});
      const Operand sums = b.scatter_elements(none, bin, added, 0, Reducer::kAdd);
      finish(e, b.reshape(sums, type.dimensions));
    }};

at::Tensor counts_of(const at::Tensor& points, at::TensorList edges, OptionalTensor weight,
                     bool density, bool even) {
  const c10::ScalarType dtype = points.scalar_type();
  TORCH_CHECK(points.dim() >= 2,
              "torch.histogramdd: input tensor should have at least 2 dimensions, but got ",
              points.dim());
  const int64_t n = points.size(-1);
  TORCH_CHECK(static_cast<int64_t>(edges.size()) == n, "torch.histogramdd: expected ", n,
              " sequences of bin edges for a ", n, "-dimensional histogram but got ", edges.size());
  c10::DimVector sizes;
  for (int64_t d = 0; d < n; ++d) {
    const at::Tensor& list = edges[d];
    TORCH_CHECK(list.scalar_type() == dtype,
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
                "got input with dtype ",
                points.dtype(), " and bins for dimension ", d, " with dtype ", list.dtype());
    TORCH_CHECK(list.dim() == 1,
                "torch.histogramdd: bins tensor should have one dimension, but got ", list.dim(),
                " dimensions in the bins tensor for dimension ", d);
    TORCH_CHECK(list.numel() > 0,
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements "
                "in the bins tensor for dimension ",
                d);
    TORCH_CHECK(list.numel() > 1, "torch.histogram(): bins must be > 0, but got 0 for dimension ",
                d);
    sizes.push_back(list.numel() - 1);
  }
  const bool weighted = weight && weight->defined();
  if (weighted) {
    TORCH_CHECK(weight->scalar_type() == dtype,
                "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
                "should have the same dtype, but got input(",
                points.dtype(), "), and weight(", weight->dtype(), ")");
    const at::IntArrayRef given = weight->dim() == 0 ? at::IntArrayRef{1} : weight->sizes();
    TORCH_CHECK(given == points.sizes().slice(0, points.dim() - 1),
                "torch.histogramdd: if weight tensor is provided it should have the same shape as "
                "the input tensor excluding its innermost dimension, but got input with shape ",
                points.sizes(), " and weight with shape ", weight->sizes());
  }
  TORCH_CHECK_NOT_IMPLEMENTED(points.is_floating_point(), "\"histogram_cpu\" not implemented for '",
                              dtype, "'");
  at::Tensor result;
  if (n == 0 || points.numel() == 0) {
    result = at::zeros(sizes, points.options());
  } else {
    Record record(kHistogram);
    record.tensor(points.reshape({-1, n})).tensors(edges);
    if (weighted) record.tensor(weight->reshape({-1}));
    result = record.attribute(even).attribute(weighted).result(dtype, sizes);
  }
  if (!density) return result;
  result = result.div(result.sum());
  for (int64_t d = 0; d < n; ++d) {
    c10::DimVector shape(n, 1);
    shape[d] = sizes[d];
    result = result.div(at::diff(edges[d]).view(shape));
  }
  return result;
}

at::Tensor flat_points(const at::Tensor& self) { return self.reshape({self.numel(), 1}); }
std::optional<at::Tensor> flat_weight(OptionalTensor weight) {
  if (!weight || !weight->defined()) return std::nullopt;
  return weight->reshape({weight->numel()});
}

std::tuple<at::Tensor, at::Tensor> histogram_of_edges(const at::Tensor& self,
                                                      const at::Tensor& edges,
                                                      OptionalTensor weight, bool density) {
  at::Tensor counts = counts_of(flat_points(self), edges, flat_weight(weight), density, false);
  return {std::move(counts), edges.clone(at::MemoryFormat::Contiguous)};
}

std::tuple<at::Tensor, at::Tensor> histogram(const at::Tensor& self, int64_t bins,
                                             OptionalRange range, OptionalTensor weight,
                                             bool density) {
  const at::Tensor points = flat_points(self);
  const std::vector<at::Tensor> edges = edges_of(points, bins, range);
  return {counts_of(points, edges, flat_weight(weight), density, true), edges[0]};
}

std::vector<at::Tensor> bin_edges(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range,
                                  OptionalTensor /*weight*/, bool /*density*/) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
  return edges_of(self, bins, range);
}

at::Tensor counts_of_numbers(const at::Tensor& self, at::IntArrayRef bins, OptionalRange range,
                             OptionalTensor weight, bool density) {
  return counts_of(self, bin_edges(self, bins, range, weight, density), weight, density, true);
}

at::Tensor counts_of_edges(const at::Tensor& self, at::TensorList edges, OptionalTensor weight,
                           bool density) {
  return counts_of(self, edges, weight, density, false);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("histogram.bins_tensor", TORCH_FN(histogram_of_edges));
  m.impl("histogram.bin_ct", TORCH_FN(histogram));
  m.impl("_histogramdd_bin_edges", TORCH_FN(bin_edges));
  m.impl("_histogramdd_from_bin_cts", TORCH_FN(counts_of_numbers));
  m.impl("_histogramdd_from_bin_tensors", TORCH_FN(counts_of_edges));
}

}  // namespace
}  // namespace torch_pjrt::aten
