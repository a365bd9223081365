#pragma once

#include <optional>

#include "aten/ops/weighted_taps.h"

namespace torch_pjrt::aten {

enum class Interpolation : int64_t {
  kNearest,
  kNearestExact,
  kLinear,
  kCubic,
  kLinearAntialias,
  kCubicAntialias,
  kLanczosAntialias,
};

// How one dimension is resized. Positions are computed in `double` if is_double, else in float, as
// PyTorch does.
WeightedTaps resampling(Interpolation kind, int64_t in, int64_t out, bool align_corners,
                        std::optional<double> scale, bool is_double);

// Makes the weights whole numbers, as the cpu has them for bytes; returns how many bits they are
// shifted by.
int quantise(WeightedTaps& weighted);

}  // namespace torch_pjrt::aten
