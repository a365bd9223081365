#include <ATen/ops/aminmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/rounding.h"

// How often numbers occur, and where elements are that are not zero.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Reducer;
using graph::Type;

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights,
                    int64_t minlength) {
  constexpr const char* kNonNegative = "bincount only supports 1-d non-negative integral inputs.";
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK_NOT_IMPLEMENTED(c10::isIntegralType(self.scalar_type(), false),
                              "\"bincount_cpu\" not implemented for '", self.scalar_type(), "'");
  const c10::ScalarType dtype = !weighted                              ? at::kLong
                                : weights->scalar_type() == at::kFloat ? at::kFloat
                                                                       : at::kDouble;
  if (self.dim() == 1 && self.numel() == 0) {
    return at::zeros({minlength}, self.options().dtype(at::kLong));
  }
  TORCH_CHECK(self.dim() == 1, kNonNegative);
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
              "weights should be 1-d and have the same length as input");
  // The size of the result depends on the data: two numbers are read.
  const auto [least, most] = at::aminmax(self);
  const at::Tensor ends = at::stack({least, most}).to(at::kLong).cpu();
  TORCH_CHECK(ends[0].item<int64_t>() >= 0, kNonNegative);
  const int64_t size = std::max(ends[1].item<int64_t>() + 1, minlength);
  const at::Tensor index = self.to(at::kLong);
  const at::Tensor added = weighted ? weights->to(dtype) : at::ones_like(index);
  return at::zeros({size}, self.options().dtype(dtype)).index_add(0, index, added);
}

// attributes: bins, whether the range is that of the data; operands: data, least, greatest
constexpr Operator kHistc{
    "aten::histc", [](Emission& e) {
      Builder& b = e.builder();
      const int64_t bins = e.attributes.integer();
      const bool from_data = e.attributes.boolean();
      const Operand x = b.flatten(b.convert(e.operand(0), compute_type(e.result_type().element)));
      Operand low = b.convert(e.operand(1), x.element()),
              high = b.convert(e.operand(2), x.element());
      if (from_data) {
        low = b.reduce(x, Reducer::kMinimum, {0});
        high = b.reduce(x, Reducer::kMaximum, {0});
        const Operand one_value = b.equal(low, high);
        low = b.select(one_value, b.subtract(low, 1), low);
        high = b.select(one_value, b.add(high, 1), high);
      }
      const Operand from = b.broadcast_to(low, x.dimensions());
      const Operand to = b.broadcast_to(high, x.dimensions());
      const Operand inside = b.bit_and(b.greater_equal(x, from), b.less_equal(x, to));
      const auto rounded = [&](Operand x) { return rounded_to(b, x, e.result_type().element); };
      const Operand distance = rounded(b.subtract(x, from));
      const Operand scaled = rounded(b.multiply(distance, static_cast<double>(bins)));
      const Operand place = rounded(b.divide(scaled, rounded(b.subtract(to, from))));
      Operand bin = b.minimum(b.convert(place, ElementType::kS32), bins - 1);
      bin = b.select(inside, bin, bins);  // beyond the end: not counted
      const Type counts{ElementType::kS32, {bins}};
      finish(e, b.scatter_elements(b.zeros(counts), bin, b.ones_like(bin), 0, Reducer::kAdd));
    }};

constexpr Operator kNoRange{
    "histc: the range of the input is not finite; got an infinity or NaN, expected finite numbers; "
    "give min and max",
    [](Emission& e) {
      Builder& b = e.builder();
      const Operand x = e.operand(0);
      e.result(any(b, b.bit_not(b.is_finite(x))));
    }};

at::Tensor histc(const at::Tensor& self, int64_t bins, const at::Scalar& min,
                 const at::Scalar& max) {
  check_implemented(self.is_floating_point(), kHistc, self.scalar_type());
  TORCH_CHECK(bins > 0, "bins must be > 0");
  const double least = min.toDouble(), most = max.toDouble();
  TORCH_CHECK(std::isfinite(least) && std::isfinite(most), "range of [", least, ", ", most,
              "] is not finite");
  TORCH_CHECK(least <= most, "max must be larger than min");
  if (self.numel() == 0) return at::zeros({bins}, self.options());
  const bool from_data = least == most;
  if (from_data) check_never(kNoRange, self);
  return Record(kHistc)
      .tensor(self)
      .number(min, self.scalar_type())
      .number(max, self.scalar_type())
      .attribute(bins)
      .attribute(from_data)
      .result(self.scalar_type(), {bins});
}

// attribute: what stands where no element is left
constexpr Operator kNonzeroStatic{
    "aten::nonzero_static", [](Emission& e) {
      Builder& b = e.builder();
      const int64_t filler = e.attributes.integer();
      const Type& type = e.result_type();
      const Operand x = e.operand(0);
      if (type.element_count() == 0) return e.result(b.zeros(type));
      const int64_t size = type.dimensions[0];
      const Operand found = b.convert(b.not_equal(b.flatten(x), 0), ElementType::kS32);
      const Operand order = b.cumulative(found, 0, Reducer::kAdd);
      const Operand target = b.select(b.equal(found, 1), b.subtract(order, 1), INT32_MAX);
      const Operand none = b.filled({ElementType::kS32, {size}}, -1);
      const Operand at =
          b.scatter_elements(none, target, b.iota(found.type(), 0), 0, Reducer::kOverwrite);
      Operands columns;
      int64_t stride = x.type().element_count();
      for (int64_t d = 0; d < x.rank(); ++d) {
        stride /= x.dimension(d);
        columns.push_back(b.remainder(b.divide(at, stride), x.dimension(d)));
      }
      const Operand places = b.convert(b.stack(columns, 1), type.element);
      const Operand missing = b.broadcast_in_dim(b.less(at, 0), type.dimensions, {0});
      e.result(b.select(missing, filler, places));
    }};

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  if (self.numel() == 0) {
    return at::zeros({size, self.dim()}, self.options().dtype(at::kLong)).fill_(fill_value);
  }
  return Record(kNonzeroStatic)
      .tensor(self)
      .attribute(fill_value)
      .result(at::kLong, {size, self.dim()});
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("bincount", TORCH_FN(bincount));
  m.impl("histc", TORCH_FN(histc));
  m.impl("nonzero_static", TORCH_FN(nonzero_static));
}

}  // namespace
}  // namespace torch_pjrt::aten
