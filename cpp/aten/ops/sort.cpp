#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/kthvalue.h>
#include <ATen/ops/mode.h>
#include <ATen/ops/permute.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "aten/host_function.h"
#include "aten/layout.h"
#include "aten/ops/reduce.h"
#include "graph/held_element.h"

// Sorting, and picking by rank. NaN sorts as the greatest.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Reducer;
using Pair = std::tuple<at::Tensor, at::Tensor>;

// Whether the cpu's kernels take x, and give places as they are held.
bool is_ranked_by_cpu(Emission& e) {
  const ElementType element = e.operand(0).element();
  return e.result_type(1).element == ElementType::kS64 &&
         (element == ElementType::kPred || pjrt::is_signed_integer(element) ||
          element == ElementType::kU8 ||
          (pjrt::is_floating(element) && pjrt::bit_width(element) >= 16));
}

void sort_on_host(HostCall& call) {
  at::sort_out(call.results[0], call.results[1], call.arguments[0], /*stable=*/false,
               /*dim=*/call.options[0], /*descending=*/call.options[1]);
}

// attributes: dim, descending, stable
constexpr Operator kSort{
    "aten::sort", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<sort_on_host, MatrixOrder::kByRows>("torch_pjrt.sort");
      const int64_t dim = e.attributes.integer();
      const bool descending = e.attributes.boolean(), stable = e.attributes.boolean();
      // In which order the cpu leaves equal elements, only its own algorithm can tell.
      if (!stable && is_ranked_by_cpu(e) &&
          call_host(e, kOnHost, {e.operand(0)}, {dim, descending}))
        return;
      const auto [values, indices] = e.builder().sort_with_indices(e.operand(0), dim, descending);
      e.result(0, values);
      e.result(1, indices);
    }};

// The greatest, quicker than by sorting all. XLA CPU does it for f32 along the last of two
// dimensions, and takes equal elements in the order of their places, but +0 before -0.
std::pair<Operand, Operand> greatest(Builder& b, Operand x, int64_t dim, int64_t count) {
  const Operand rows = b.swap_dimensions(x, dim, -1);
  graph::Dimensions sizes = rows.dimensions();
  const Operand flat = b.reshape(b.convert(rows, ElementType::kF32),
                                 {x.type().element_count() / sizes.back(), sizes.back()});
  sizes.back() = count;
  const Operand found = b.top_k(b.select(b.equal(flat, 0), 0, flat), count).second;
  const Operand places = b.swap_dimensions(b.reshape(found, sizes), dim, -1);
  return {b.gather_elements(x, places, dim), b.convert(places, graph::held(ElementType::kS64))};
}

bool is_exact_in_f32(ElementType element) {
  return pjrt::is_floating(element) && pjrt::bit_width(element) <= 32;
}

// Below that share, picking the greatest is quicker than sorting.
constexpr int64_t kFewOf = 4;

// Of x sorted along dim: `count` from `first` on.
void take_ranks(Emission& e, int64_t dim, bool descending, int64_t first, int64_t count) {
  Builder& b = e.builder();
  const Operand x = e.operand(0);
  const bool is_few = descending && first == 0 && count > 0 && x.type().element_count() > 0 &&
                      count <= x.dimension(dim) / kFewOf && is_exact_in_f32(x.element());
  const auto [values, indices] =
      is_few ? greatest(b, x, dim, count) : b.sort_with_indices(x, dim, descending);
  const auto take = [&](size_t i, Operand sorted) {
    e.result(
        i, b.reshape(b.slice_dim(sorted, dim, first, first + count), e.result_type(i).dimensions));
  };
  take(0, values);
  take(1, indices);
}

void pick_greatest_on_host(HostCall& call) {
  at::topk_out(call.results[0], call.results[1], call.arguments[0], /*k=*/call.options[0],
               /*dim=*/call.options[1], /*largest=*/call.options[2], /*sorted=*/call.options[3]);
}

// attributes: k, dim, largest, sorted
constexpr Operator kGreatest{
    "aten::topk", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<pick_greatest_on_host, MatrixOrder::kByRows>("torch_pjrt.topk");
      const int64_t k = e.attributes.integer(), dim = e.attributes.integer();
      const bool largest = e.attributes.boolean(), sorted = e.attributes.boolean();
      if (is_ranked_by_cpu(e) && call_host(e, kOnHost, {e.operand(0)}, {k, dim, largest, sorted})) {
        return;
      }
      take_ranks(e, dim, largest, 0, k);
    }};

void pick_rank_on_host(HostCall& call) {
  const bool keepdim = call.results[0].dim() == call.arguments[0].dim();
  at::kthvalue_out(call.results[0], call.results[1], call.arguments[0], /*k=*/call.options[0],
                   /*dim=*/call.options[1], keepdim);
}

// attributes: k, dim
constexpr Operator kRank{
    "aten::kthvalue", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<pick_rank_on_host, MatrixOrder::kByRows>("torch_pjrt.kthvalue");
      const int64_t k = e.attributes.integer(), dim = e.attributes.integer();
      if (is_ranked_by_cpu(e) && call_host(e, kOnHost, {e.operand(0)}, {k, dim})) return;
      take_ranks(e, dim, false, k - 1, 1);
    }};

// The lower median. attributes: dim, whether NaNs are left out (else the first of them wins)
constexpr Operator kMedian{
    "aten::median", [](Emission& e) {
      Builder& b = e.builder();
      const int64_t dim = e.attributes.integer();
      const bool ignores_nan = e.attributes.boolean();
      const Operand x = e.operand(0);
      const int64_t size = x.dimension(dim);
      const auto [values, indices] = b.sort_with_indices(x, dim, false);
      const Operand nans = b.reduce(b.convert(b.is_nan(x), graph::held(graph::ElementType::kS64)),
                                    Reducer::kAdd, {dim}, true);
      const Operand numbers = b.subtract(size, nans);
      Operand place;
      if (ignores_nan) {
        place = b.divide(b.maximum(b.subtract(numbers, 1), 0), 2);
      } else {
        place = b.select(b.greater(nans, 0), numbers, b.filled_like(numbers, (size - 1) / 2));
      }
      const auto take = [&](size_t i, Operand sorted) {
        e.result(i, b.reshape(b.gather_elements(sorted, place, dim), e.result_type(i).dimensions));
      };
      take(0, values);
      take(1, indices);
    }};

void find_mode_on_host(HostCall& call) {
  const bool keepdim = call.results[0].dim() == call.arguments[0].dim();
  at::mode_out(call.results[0], call.results[1], call.arguments[0], /*dim=*/call.options[0],
               keepdim);
}

// The longest run in sorted order; of equal ones the least value. attribute: dim
constexpr Operator kMode{
    "aten::mode", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<find_mode_on_host, MatrixOrder::kByRows>("torch_pjrt.mode");
      Builder& b = e.builder();
      const int64_t dim = e.attributes.integer();
      if (is_ranked_by_cpu(e) && call_host(e, kOnHost, {e.operand(0)}, {dim})) return;
      const Operand x = e.operand(0);
      const int64_t size = x.dimension(dim);
      const auto [values, indices] = b.sort_with_indices(x, dim, false);
      const Operand place = b.iota({graph::held(graph::ElementType::kS64), x.dimensions()}, dim);
      Operand starts = b.zeros_like(place);
      if (size > 1) {
        const Operand differs =
            b.not_equal(b.slice_dim(values, dim, 1, size), b.slice_dim(values, dim, 0, size - 1));
        const Operand first =
            b.filled({ElementType::kPred, b.slice_dim(values, dim, 0, 1).dimensions()}, true);
        starts = b.select(b.concatenate({first, differs}, dim), place, starts);
        starts = b.cumulative(starts, dim, Reducer::kMaximum);
      }
      const Operand best =
          b.argmax(b.subtract(place, starts), dim, graph::held(graph::ElementType::kS64), true)
              .second;
      const auto take = [&](size_t i, Operand sorted) {
        e.result(i, b.reshape(b.gather_elements(sorted, best, dim), e.result_type(i).dimensions));
      };
      take(0, values);
      take(1, indices);
    }};

Pair pair(std::vector<at::Tensor> both) { return {std::move(both[0]), std::move(both[1])}; }

Pair of_number(const at::Tensor& self) {
  return {self.clone(), at::zeros({}, self.options().dtype(at::kLong))};
}

void check_real(const char* name, const at::Tensor& self) {
  TORCH_CHECK(!self.is_complex(), name, "(): does not support complex input");
}

Pair sort_along(const at::Tensor& self, int64_t dim, bool descending, bool stable) {
  return pair(Record(kSort)
                  .tensor(self)
                  .attribute(dim)
                  .attribute(descending)
                  .attribute(stable)
                  .results({{self.scalar_type(), self.sizes()}, {at::kLong, self.sizes()}}));
}

Pair sort(const at::Tensor& self, std::optional<bool> is_stable, int64_t dim, bool descending) {
  TORCH_CHECK(!self.is_complex(), "Sort currently does not support complex dtypes on CPU");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return of_number(self);
  const auto strides = preserved_strides(self);
  const bool stable = is_stable.value_or(false);
  if (!strides) return sort_along(self, wrapped, descending, stable);
  // The results have these strides, too: sorted with the dimensions in the order of the memory.
  c10::DimVector order(self.dim());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return (*strides)[a] > (*strides)[b]; });
  const auto place = std::find(order.begin(), order.end(), wrapped) - order.begin();
  const auto [values, places] = sort_along(self.permute(order), place, descending, stable);
  return {values.as_strided(self.sizes(), *strides), places.as_strided(self.sizes(), *strides)};
}

Pair topk(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted) {
  check_real("topk", self);
  TORCH_CHECK(self.scalar_type() != at::kBool, "topk does not support bool dtypes on CPU");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(k >= 0 && k <= (self.dim() ? self.size(wrapped) : 1),
              "selected index k out of range");
  if (self.dim() == 0 && k == 1) return of_number(self);
  c10::DimVector sizes(self.sizes());
  if (!sizes.empty()) sizes[wrapped] = k;
  if (self.dim() == 0) {
    return {at::empty({}, self.options()), at::empty({}, self.options().dtype(at::kLong))};
  }
  return pair(Record(kGreatest)
                  .tensor(self)
                  .attribute(k)
                  .attribute(wrapped)
                  .attribute(largest)
                  .attribute(sorted)
                  .results({{self.scalar_type(), sizes}, {at::kLong, sizes}}));
}

Pair kthvalue(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  check_real("kthvalue", self);
  check_implemented(self.scalar_type() != at::kBool, kRank, self.scalar_type());
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.dim() ? self.size(wrapped) : 1;
  TORCH_CHECK_INDEX(self.numel() != 0 || size != 0, "kthvalue(): Expected reduction dim ", wrapped,
                    " to have non-zero size.");
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ",
              wrapped);
  if (self.dim() == 0) return of_number(self);
  const c10::DimVector sizes = reduced_sizes(self, {wrapped}, keepdim);
  return pair(Record(kRank).tensor(self).attribute(k).attribute(wrapped).results(
      {{self.scalar_type(), sizes}, {at::kLong, sizes}}));
}

template <bool kIgnoresNan>
Pair median_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
  check_real("median", self);
  check_implemented(self.scalar_type() != at::kBool, kMedian, self.scalar_type());
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return of_number(self);
  TORCH_CHECK_INDEX(self.size(wrapped) != 0, "median(): Expected reduction dim ", wrapped,
                    " to have non-zero size.");
  const c10::DimVector sizes = reduced_sizes(self, {wrapped}, keepdim);
  return pair(Record(kMedian)
                  .tensor(self)
                  .attribute(wrapped)
                  .attribute(kIgnoresNan)
                  .results({{self.scalar_type(), sizes}, {at::kLong, sizes}}));
}

template <bool kIgnoresNan>
at::Tensor median(const at::Tensor& self) {
  if (self.numel() == 0) {
    // Whatever number the processor makes of NaN.
    return at::full({}, NAN, at::kDouble).to(self.scalar_type()).to(self.device());
  }
  return std::get<0>(median_dim<kIgnoresNan>(self.reshape({-1}), 0, false));
}

Pair mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  check_real("mode", self);
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return of_number(self);
  TORCH_CHECK_INDEX(self.size(wrapped) != 0, "mode(): Expected reduction dim ", wrapped,
                    " to have non-zero size.");
  const c10::DimVector sizes = reduced_sizes(self, {wrapped}, keepdim);
  return pair(Record(kMode).tensor(self).attribute(wrapped).results(
      {{self.scalar_type(), sizes}, {at::kLong, sizes}}));
}

std::tuple<at::Tensor&, at::Tensor&> mode_out(const at::Tensor& self, int64_t dim, bool keepdim,
                                              at::Tensor& values, at::Tensor& indices) {
  const auto [found, places] = aten::mode(self, dim, keepdim);
  at::native::resize_output(values, found.sizes());
  at::native::resize_output(indices, places.sizes());
  values.copy_(found);
  indices.copy_(places);
  return {values, indices};
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("sort.stable", TORCH_FN(sort));
  m.impl("topk", TORCH_FN(topk));
  m.impl("kthvalue", TORCH_FN(kthvalue));
  m.impl("median", TORCH_FN(median<false>));
  m.impl("median.dim", TORCH_FN(median_dim<false>));
  m.impl("nanmedian", TORCH_FN(median<true>));
  m.impl("nanmedian.dim", TORCH_FN(median_dim<true>));
  m.impl("mode", TORCH_FN(mode));
  m.impl("mode.values", TORCH_FN(mode_out));  // PyTorch's refuses other devices than its own
}

}  // namespace
}  // namespace torch_pjrt::aten
