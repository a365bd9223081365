#include "aten/ops/weighted_taps.h"

#include <algorithm>

namespace torch_pjrt::aten {

using graph::Dimensions;
using graph::ElementType;

namespace {

using Taps = WeightedTaps::Taps;

constexpr size_t kUnrolled = 64;  // more taps than these are gathered together, then reduced

Dimensions split(const Dimensions& sizes, int64_t dim, int64_t first, int64_t second) {
  Dimensions result = sizes;
  result[static_cast<size_t>(dim)] = first;
  result.insert(static_cast<size_t>(dim) + 1, second);
  return result;
}

// weight * x[index] along a dimension for each tap; 0 where the index is negative.
Operand products(StableHloBuilder& b, Operand x, int64_t dim, const Taps& taps) {
  std::vector<int64_t> places, present;
  std::vector<double> weights;
  for (const WeightedTaps::Tap& tap : taps) {
    places.push_back(std::max<int64_t>(tap.index, 0));
    present.push_back(tap.index >= 0);
    weights.push_back(tap.weight);
  }
  Operand result = b.take(x, b.list(ElementType::kS32, places), dim);
  const Dimensions sizes = result.dimensions();
  const auto along = [&](Operand list) { return b.broadcast_in_dim(list, sizes, {dim}); };
  if (std::ranges::any_of(weights, [](double w) { return w != 1; })) {
    result = b.multiply(result, along(b.real_list(x.element(), weights)));
  }
  if (std::ranges::find(present, 0) != present.end()) {
    const Operand list = b.not_equal(b.list(ElementType::kS32, present), 0);
    result = b.select(along(list), result, 0);
  }
  return result;
}

}  // namespace

WeightedTaps WeightedTaps::transposed() const {
  WeightedTaps result(out(), in);
  for (int64_t o = 0; o < out(); ++o) {
    for (const Tap& tap : outputs[static_cast<size_t>(o)]) {
      result.of(tap.index).push_back({o, tap.weight});
    }
  }
  return result;
}

int64_t WeightedTaps::repeats() const {
  if (in == 0 || out() % in != 0) return 0;
  const int64_t times = out() / in;
  for (int64_t o = 0; o < out(); ++o) {
    const Taps& taps = outputs[static_cast<size_t>(o)];
    if (taps.size() != 1 || taps[0].index != o / times || taps[0].weight != 1) return 0;
  }
  return times;
}

int64_t WeightedTaps::tiles() const {
  if (outputs.empty() || in % out() != 0) return 0;
  int64_t expected = 0;
  for (const Taps& taps : outputs) {
    if (static_cast<int64_t>(taps.size()) != in / out()) return 0;
    for (const Tap& tap : taps) {
      if (tap.index != expected++ || tap.weight != 1) return 0;
    }
  }
  return in / out();
}

Operand WeightedTaps::sum(StableHloBuilder& b, Operand x, int64_t dim) const {
  Dimensions sizes = x.dimensions();
  sizes[static_cast<size_t>(dim)] = out();
  const auto reduced = [&](Operand parts, int64_t count) {
    return b.reduce(b.reshape(parts, split(sizes, dim, out(), count)), graph::Reducer::kAdd,
                    {dim + 1});
  };
  if (const int64_t times = repeats()) {
    if (times == 1) return x;
    Dimensions mapping;
    for (int64_t i = 0; i < x.rank(); ++i) mapping.push_back(i <= dim ? i : i + 1);
    return b.reshape(b.broadcast_in_dim(x, split(x.dimensions(), dim, in, times), mapping), sizes);
  }
  if (const int64_t count = tiles()) return reduced(x, count);
  size_t most = 0;
  for (const Taps& taps : outputs) most = std::max(most, taps.size());
  constexpr Tap kNone{-1};
  const auto tap = [&](const Taps& taps, size_t t) { return t < taps.size() ? taps[t] : kNone; };
  if (most > kUnrolled) {
    Taps all;
    for (const Taps& taps : outputs) {
      for (size_t t = 0; t < most; ++t) all.push_back(tap(taps, t));
    }
    return reduced(products(b, x, dim, all), static_cast<int64_t>(most));
  }
  Operand total;
  for (size_t t = 0; t < most; ++t) {
    Taps one_each;
    for (const Taps& taps : outputs) one_each.push_back(tap(taps, t));
    const Operand part = products(b, x, dim, one_each);
    total = total ? b.add(total, part) : part;
  }
  return total ? total : b.zeros({x.element(), sizes});
}

}  // namespace torch_pjrt::aten
