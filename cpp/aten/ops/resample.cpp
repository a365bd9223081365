#include "aten/ops/resample.h"

#include <ATen/native/UpSample.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "aten/ops/matmul.h"

namespace torch_pjrt::aten {

using graph::Dimensions;
using graph::ElementType;

namespace {

constexpr int64_t kMatrixLimit = 64;  // inputs; longer dimensions are gathered

template <typename Real>
Real filter(Interpolation kind, Real x) {
  x = std::abs(x);
  if (kind == Interpolation::kLinearAntialias) return x < 1 ? 1 - x : 0;
  if (kind == Interpolation::kCubicAntialias) {
    constexpr Real a = -0.5;
    if (x < 1) return at::native::cubic_convolution1<Real>(x, a);
    return x < 2 ? at::native::cubic_convolution2<Real>(x, a) : 0;
  }
  if (x >= 3) return 0;
  const auto sinc = [](Real v) { return v == 0 ? Real(1) : std::sin(v) / v; };
  const Real pi = static_cast<Real>(M_PI);
  return sinc(x * pi) * sinc(x * pi / 3);
}

}  // namespace

Resampling::Resampling(Interpolation kind, int64_t in, int64_t out, bool align_corners,
                       std::optional<double> scale, bool is_double)
    : in(in), out(out) {
  if (kind >= Interpolation::kLinearAntialias) {
    is_double ? fill_antialias<double>(kind, align_corners, scale)
              : fill_antialias<float>(kind, align_corners, scale);
  } else {
    is_double ? fill<double>(kind, align_corners, scale) : fill<float>(kind, align_corners, scale);
  }
}

template <typename Real>
void Resampling::fill(Interpolation kind, bool align_corners, std::optional<double> scale) {
  using namespace at::native;
  const size_t taps = kind == Interpolation::kLinear ? 2 : kind == Interpolation::kCubic ? 4 : 1;
  index.resize(taps);
  if (taps > 1) weight.resize(taps);
  const auto nearest_scale = compute_scales_value<float>(scale, in, out);
  const Real ratio = area_pixel_compute_scale<Real>(in, out, align_corners, scale);
  for (int64_t o = 0; o < out; ++o) {
    if (kind == Interpolation::kNearest) {
      index[0].push_back(nearest_neighbor_compute_source_index(nearest_scale, o, in));
    } else if (kind == Interpolation::kNearestExact) {
      index[0].push_back(nearest_neighbor_exact_compute_source_index(nearest_scale, o, in));
    } else if (kind == Interpolation::kLinear) {
      int64_t first, second;
      Real first_weight, second_weight;
      compute_source_index_and_lambda(first, second, first_weight, second_weight, ratio, o, in, out,
                                      align_corners);
      index[0].push_back(first);
      index[1].push_back(second);
      weight[0].push_back(first_weight);
      weight[1].push_back(second_weight);
    } else {
      const Real place = area_pixel_compute_source_index<Real>(ratio, o, align_corners, true);
      int64_t start;
      Real fraction, coefficients[4];
      guard_index_and_lambda(place, in, start, fraction);
      get_cubic_upsample_coefficients<Real>(coefficients, fraction);
      for (size_t t = 0; t < 4; ++t) {
        const int64_t i = start - 1 + static_cast<int64_t>(t);
        index[t].push_back(std::clamp<int64_t>(i, 0, in - 1));
        weight[t].push_back(coefficients[t]);
      }
    }
  }
}

template <typename Real>
void Resampling::fill_antialias(Interpolation kind, bool align_corners,
                                std::optional<double> scale) {
  const Real ratio = at::native::area_pixel_compute_scale<Real>(in, out, align_corners, scale);
  const Real reach = kind == Interpolation::kLinearAntialias  ? 1
                     : kind == Interpolation::kCubicAntialias ? 2
                                                              : 3;
  const Real support = ratio >= 1 ? reach * ratio : reach;
  const Real inverse = ratio >= 1 ? 1 / ratio : 1;
  for (int64_t o = 0; o < out; ++o) {
    const Real centre = ratio * (o + Real(0.5));
    const int64_t start = std::max<int64_t>(static_cast<int64_t>(centre - support + Real(0.5)), 0);
    const int64_t end = std::min<int64_t>(static_cast<int64_t>(centre + support + Real(0.5)), in);
    std::vector<Real> weights;
    Real total = 0;
    for (int64_t i = start; i < end; ++i) {
      weights.push_back(filter<Real>(kind, (i - centre + Real(0.5)) * inverse));
      total += weights.back();
    }
    for (size_t t = 0; t < weights.size(); ++t) {
      if (t == index.size()) {
        index.emplace_back(static_cast<size_t>(out), 0);
        weight.emplace_back(static_cast<size_t>(out), 0.0);
      }
      index[t][static_cast<size_t>(o)] = start + static_cast<int64_t>(t);
      weight[t][static_cast<size_t>(o)] = total != 0 ? weights[t] / total : weights[t];
    }
  }
}

int Resampling::quantise() {
  // Taps that an end of the dimension has pushed onto one element are one tap, rounded once.
  for (size_t o = 0; o < static_cast<size_t>(out); ++o) {
    for (size_t t = 1; t < weight.size(); ++t) {
      for (size_t earlier = 0; earlier < t; ++earlier) {
        if (index[earlier][o] != index[t][o]) continue;
        weight[earlier][o] += std::exchange(weight[t][o], 0.0);
        break;
      }
    }
  }
  double most = 0;
  for (const auto& tap : weight) {
    for (double w : tap) most = std::max(most, w);
  }
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + most * (1 << (bits + 1))) < (1 << 15)) ++bits;
  for (auto& tap : weight) {
    for (double& w : tap) w = std::trunc(w * (1 << bits) + (w < 0 ? -0.5 : 0.5));
  }
  return bits;
}

int64_t Resampling::repeats() const {
  if (!weight.empty() || out % in != 0) return 0;
  const int64_t times = out / in;
  for (int64_t o = 0; o < out; ++o) {
    if (index[0][static_cast<size_t>(o)] != o / times) return 0;
  }
  return times;
}

Operand Resampling::matrix(StableHloBuilder& b, ElementType element) const {
  const Dimensions sizes{out, in};
  const Operand column = b.iota({ElementType::kS32, sizes}, 1);
  Operand sum;
  for (size_t t = 0; t < index.size(); ++t) {
    const Operand hit =
        b.equal(column, b.broadcast_in_dim(b.list(ElementType::kS32, index[t]), sizes, {0}));
    const Operand share = weight.empty()
                              ? b.ones({element, sizes})
                              : b.broadcast_in_dim(b.real_list(element, weight[t]), sizes, {0});
    const Operand part = b.select(hit, share, 0);
    sum = sum ? b.add(sum, part) : part;
  }
  return sum;
}

namespace {

Dimensions split(const Dimensions& sizes, int64_t dim, int64_t first, int64_t second) {
  Dimensions result = sizes;
  result[static_cast<size_t>(dim)] = first;
  result.insert(static_cast<size_t>(dim) + 1, second);
  return result;
}

}  // namespace

Operand Resampling::forward(StableHloBuilder& b, Operand x, int64_t dim) const {
  Dimensions sizes = x.dimensions();
  sizes[static_cast<size_t>(dim)] = out;
  if (const int64_t times = repeats()) {
    if (times == 1) return x;
    Dimensions mapping;
    for (int64_t i = 0; i < x.rank(); ++i) mapping.push_back(i <= dim ? i : i + 1);
    return b.reshape(b.broadcast_in_dim(x, split(x.dimensions(), dim, in, times), mapping), sizes);
  }
  if (!weight.empty() && in <= kMatrixLimit) {
    return multiply_dimension(b, x, matrix(b, x.element()), dim, 1);
  }
  Operand sum;
  for (size_t t = 0; t < index.size(); ++t) {
    Operand part = b.take(x, b.list(ElementType::kS32, index[t]), dim);
    if (!weight.empty()) {
      part =
          b.multiply(part, b.broadcast_in_dim(b.real_list(x.element(), weight[t]), sizes, {dim}));
    }
    sum = sum ? b.add(sum, part) : part;
  }
  return sum;
}

Operand Resampling::backward(StableHloBuilder& b, Operand grad, int64_t dim) const {
  if (const int64_t times = repeats()) {
    if (times == 1) return grad;
    return b.reduce(b.reshape(grad, split(grad.dimensions(), dim, in, times)), graph::Reducer::kAdd,
                    {dim + 1});
  }
  return multiply_dimension(b, grad, matrix(b, grad.element()), dim, 0);
}

}  // namespace torch_pjrt::aten
