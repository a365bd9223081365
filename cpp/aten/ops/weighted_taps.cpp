#include "aten/ops/weighted_taps.h"

#include <algorithm>

namespace torch_pjrt::aten {

using graph::Dimensions;
using graph::ElementType;

namespace {

constexpr size_t kUnrolled = 64;  // more taps than these are gathered together, then reduced

Dimensions split(const Dimensions& sizes, int64_t dim, int64_t first, int64_t second) {
  Dimensions result = sizes;
  result[static_cast<size_t>(dim)] = first;
  result.insert(static_cast<size_t>(dim) + 1, second);
  return result;
}

// weights[i] * x[index[i]] along a dimension; 0 where the index is kNone. Empty weights are 1.
Operand products(StableHloBuilder& b, Operand x, int64_t dim, const std::vector<int64_t>& index,
                 const std::vector<double>& weights) {
  std::vector<int64_t> places, present;
  for (int64_t i : index) {
    places.push_back(std::max<int64_t>(i, 0));
    present.push_back(i != WeightedTaps::kNone);
  }
  Operand result = b.take(x, b.list(ElementType::kS32, places), dim);
  const Dimensions sizes = result.dimensions();
  if (!weights.empty()) {
    const Operand list = b.real_list(x.element(), weights);
    result = b.multiply(result, b.broadcast_in_dim(list, sizes, {dim}));
  }
  if (std::ranges::find(present, 0) != present.end()) {
    const Operand list = b.not_equal(b.list(ElementType::kS32, present), 0);
    result = b.select(b.broadcast_in_dim(list, sizes, {dim}), result, 0);
  }
  return result;
}

// Of lists by tap, one list by output, then tap.
template <typename T>
std::vector<T> interleaved(const std::vector<std::vector<T>>& lists) {
  std::vector<T> result;
  for (size_t o = 0; !lists.empty() && o < lists[0].size(); ++o) {
    for (const auto& list : lists) result.push_back(list[o]);
  }
  return result;
}

}  // namespace

void WeightedTaps::add(int64_t o, int64_t i) {
  const auto place = static_cast<size_t>(o);
  for (auto& tap : index) {
    if (tap[place] != kNone) continue;
    tap[place] = i;
    return;
  }
  index.emplace_back(static_cast<size_t>(out), kNone)[place] = i;
}

void WeightedTaps::add(int64_t o, int64_t i, double w) {
  const auto place = static_cast<size_t>(o);
  size_t t = 0;
  while (t < index.size() && index[t][place] != kNone) ++t;
  add(o, i);
  weight.resize(index.size(), std::vector<double>(static_cast<size_t>(out), 0.0));
  weight[t][place] = w;
}

WeightedTaps WeightedTaps::transposed() const {
  WeightedTaps result(out, in);
  for (int64_t o = 0; o < out; ++o) {
    const auto place = static_cast<size_t>(o);
    for (size_t t = 0; t < index.size(); ++t) {
      const int64_t i = index[t][place];
      if (i == kNone) continue;
      weight.empty() ? result.add(i, o) : result.add(i, o, weight[t][place]);
    }
  }
  return result;
}

int64_t WeightedTaps::repeats() const {
  if (index.size() != 1 || !weight.empty() || in == 0 || out % in != 0) return 0;
  const int64_t times = out / in;
  for (int64_t o = 0; o < out; ++o) {
    if (index[0][static_cast<size_t>(o)] != o / times) return 0;
  }
  return times;
}

bool WeightedTaps::tiles() const {
  if (!weight.empty() || static_cast<int64_t>(index.size()) * out != in) return false;
  int64_t expected = 0;
  for (int64_t i : interleaved(index)) {
    if (i != expected++) return false;
  }
  return true;
}

Operand WeightedTaps::sum(StableHloBuilder& b, Operand x, int64_t dim) const {
  Dimensions sizes = x.dimensions();
  sizes[static_cast<size_t>(dim)] = out;
  const auto taps = static_cast<int64_t>(index.size());
  if (taps == 0) return b.zeros({x.element(), sizes});
  if (const int64_t times = repeats()) {
    if (times == 1) return x;
    Dimensions mapping;
    for (int64_t i = 0; i < x.rank(); ++i) mapping.push_back(i <= dim ? i : i + 1);
    return b.reshape(b.broadcast_in_dim(x, split(x.dimensions(), dim, in, times), mapping), sizes);
  }
  if (tiles() || index.size() > kUnrolled) {
    const Operand parts =
        tiles() ? x : products(b, x, dim, interleaved(index), interleaved(weight));
    return b.reduce(b.reshape(parts, split(sizes, dim, out, taps)), graph::Reducer::kAdd,
                    {dim + 1});
  }
  Operand total;
  for (size_t t = 0; t < index.size(); ++t) {
    const Operand part =
        products(b, x, dim, index[t], weight.empty() ? std::vector<double>{} : weight[t]);
    total = total ? b.add(total, part) : part;
  }
  return total;
}

}  // namespace torch_pjrt::aten
