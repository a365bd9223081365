#pragma once

#include <vector>

#include "aten/record.h"

namespace torch_pjrt::aten {

// Sums along a dimension: output o is the sum of weight * x[index] over its taps, of which outputs
// have few. A matrix would say the same, but its zeros times a NaN or an infinity that is none of
// an output's taps are NaN.
struct WeightedTaps {
  struct Tap {
    int64_t index;
    double weight = 1;
  };
  using Taps = std::vector<Tap>;

  int64_t in;
  std::vector<Taps> outputs;

  WeightedTaps(int64_t in, int64_t out) : in(in), outputs(static_cast<size_t>(out)) {}
  int64_t out() const { return static_cast<int64_t>(outputs.size()); }
  Taps& of(int64_t output) { return outputs[static_cast<size_t>(output)]; }
  // The same products, summed for each input over the outputs that it is part of.
  WeightedTaps transposed() const;
  Operand sum(StableHloBuilder& builder, Operand x, int64_t dim) const;

 private:
  // How often each input is repeated, if that is all that happens; else 0.
  int64_t repeats() const;
  // How many inputs each output sums, if these follow each other and go as they are; else 0.
  int64_t tiles() const;
};

}  // namespace torch_pjrt::aten
