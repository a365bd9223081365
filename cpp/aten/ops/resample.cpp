#include "aten/ops/resample.h"

#include <ATen/native/UpSample.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace torch_pjrt::aten {
namespace {

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

template <typename Real>
WeightedTaps interpolated(Interpolation kind, int64_t in, int64_t out, bool align_corners,
                          std::optional<double> scale) {
  using namespace at::native;
  WeightedTaps result(in, out);
  auto& index = result.index;
  auto& weight = result.weight;
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
  return result;
}

template <typename Real>
WeightedTaps antialiased(Interpolation kind, int64_t in, int64_t out, bool align_corners,
                         std::optional<double> scale) {
  WeightedTaps result(in, out);
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
      const Real share = total != 0 ? weights[t] / total : weights[t];
      result.add(o, start + static_cast<int64_t>(t), share);
    }
  }
  return result;
}

}  // namespace

WeightedTaps resampling(Interpolation kind, int64_t in, int64_t out, bool align_corners,
                        std::optional<double> scale, bool is_double) {
  if (kind >= Interpolation::kLinearAntialias) {
    return is_double ? antialiased<double>(kind, in, out, align_corners, scale)
                     : antialiased<float>(kind, in, out, align_corners, scale);
  }
  return is_double ? interpolated<double>(kind, in, out, align_corners, scale)
                   : interpolated<float>(kind, in, out, align_corners, scale);
}

int quantise(WeightedTaps& taps) {
  // Taps that an end of the dimension has pushed onto one element are one tap, rounded once.
  for (size_t o = 0; o < static_cast<size_t>(taps.out); ++o) {
    for (size_t t = 1; t < taps.index.size(); ++t) {
      for (size_t earlier = 0; earlier < t; ++earlier) {
        if (taps.index[earlier][o] != taps.index[t][o]) continue;
        taps.weight[earlier][o] += std::exchange(taps.weight[t][o], 0.0);
        break;
      }
    }
  }
  double most = 0;
  for (const auto& tap : taps.weight) {
    for (double w : tap) most = std::max(most, w);
  }
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + most * (1 << (bits + 1))) < (1 << 15)) ++bits;
  for (auto& tap : taps.weight) {
    for (double& w : tap) w = std::trunc(w * (1 << bits) + (w < 0 ? -0.5 : 0.5));
  }
  return bits;
}

}  // namespace torch_pjrt::aten
