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
  const auto nearest_scale = compute_scales_value<float>(scale, in, out);
  const Real ratio = area_pixel_compute_scale<Real>(in, out, align_corners, scale);
  for (int64_t o = 0; o < out; ++o) {
    WeightedTaps::Taps& taps = result.of(o);
    if (kind == Interpolation::kNearest) {
      taps.push_back({nearest_neighbor_compute_source_index(nearest_scale, o, in)});
    } else if (kind == Interpolation::kNearestExact) {
      taps.push_back({nearest_neighbor_exact_compute_source_index(nearest_scale, o, in)});
    } else if (kind == Interpolation::kLinear) {
      int64_t first, second;
      Real first_weight, second_weight;
      compute_source_index_and_lambda(first, second, first_weight, second_weight, ratio, o, in, out,
                                      align_corners);
      taps = {{first, first_weight}, {second, second_weight}};
    } else {
      const Real place = area_pixel_compute_source_index<Real>(ratio, o, align_corners, true);
      int64_t start;
      Real fraction, coefficients[4];
      guard_index_and_lambda(place, in, start, fraction);
      get_cubic_upsample_coefficients<Real>(coefficients, fraction);
      for (int64_t t = 0; t < 4; ++t) {
        taps.push_back({std::clamp<int64_t>(start - 1 + t, 0, in - 1), coefficients[t]});
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
      result.of(o).push_back({start + static_cast<int64_t>(t), share});
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

int quantise(WeightedTaps& weighted) {
  double most = 0;
  for (WeightedTaps::Taps& taps : weighted.outputs) {
    // Taps that an end of the dimension has pushed onto one element are one tap, rounded once.
    for (size_t t = 1; t < taps.size(); ++t) {
      const auto same = std::ranges::find(taps, taps[t].index, &WeightedTaps::Tap::index);
      if (&*same != &taps[t]) same->weight += std::exchange(taps[t].weight, 0.0);
    }
    for (const WeightedTaps::Tap& tap : taps) most = std::max(most, tap.weight);
  }
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + most * (1 << (bits + 1))) < (1 << 15)) ++bits;
  for (WeightedTaps::Taps& taps : weighted.outputs) {
    for (auto& [_, w] : taps) w = std::trunc(w * (1 << bits) + (w < 0 ? -0.5 : 0.5));
  }
  return bits;
}

}  // namespace torch_pjrt::aten
