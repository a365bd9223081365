#pragma once

#include <optional>
#include <vector>

#include "aten/record.h"

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

// How one dimension is resized: output o is the sum over taps t of weight[t][o] * x[index[t][o]].
struct Resampling {
  int64_t in = 0, out = 0;
  std::vector<std::vector<int64_t>> index;
  std::vector<std::vector<double>> weight;  // empty for the nearest kinds, whose weight is 1

  // Positions are computed in `double` if is_double, else in float, as PyTorch does.
  Resampling(Interpolation kind, int64_t in, int64_t out, bool align_corners,
             std::optional<double> scale, bool is_double);

  // Makes the weights whole numbers, as the cpu has them for bytes; returns how many bits they are
  // shifted by.
  int quantise();

  // How often each input is repeated, if that is all that happens; else 0.
  int64_t repeats() const;
  Operand forward(StableHloBuilder& builder, Operand x, int64_t dim) const;
  Operand backward(StableHloBuilder& builder, Operand grad, int64_t dim) const;

 private:
  template <typename Real>
  void fill(Interpolation kind, bool align_corners, std::optional<double> scale);
  template <typename Real>
  void fill_antialias(Interpolation kind, bool align_corners, std::optional<double> scale);
  Operand matrix(StableHloBuilder& builder, graph::ElementType element) const;  // [out, in]
};

}  // namespace torch_pjrt::aten
