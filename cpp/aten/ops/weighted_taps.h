#pragma once

#include <vector>

#include "aten/record.h"

namespace torch_pjrt::aten {

// Short sums along a dimension: output o is the sum over taps t of weight[t][o] * x[index[t][o]].
// A matrix would say the same, but its zeros times an infinity or NaN elsewhere are NaN.
struct WeightedTaps {
  static constexpr int64_t kNone = -1;  // an index where an output has fewer taps than others

  int64_t in = 0, out = 0;
  std::vector<std::vector<int64_t>> index;
  std::vector<std::vector<double>> weight;  // empty: all are 1

  WeightedTaps(int64_t in, int64_t out) : in(in), out(out) {}
  // Another tap of output o; without a weight where all are 1.
  void add(int64_t o, int64_t i);
  void add(int64_t o, int64_t i, double w);
  // The same products, summed for each input over the outputs that it is part of.
  WeightedTaps transposed() const;
  Operand sum(StableHloBuilder& builder, Operand x, int64_t dim) const;

 private:
  // How often each input is repeated, if that is all that happens; else 0.
  int64_t repeats() const;
  // Each output sums as many inputs, in order, and takes them as they are.
  bool tiles() const;
};

}  // namespace torch_pjrt::aten
