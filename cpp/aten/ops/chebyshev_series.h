#pragma once

#include <vector>

#include "aten/record.h"

namespace torch_pjrt::aten {

// A smooth function on [low, high] as a sum of Chebyshev polynomials, found by sampling PyTorch's
// own scalar function for the host: so the constants are those of no table, and the results are
// PyTorch's to the last digits of float64.
class ChebyshevSeries {
 public:
  // `terms` samples are taken, none of them at the ends.
  ChebyshevSeries(double low, double high, int terms, double (*function)(double));

  // The sum at x, which is float32 or float64; outside of the interval it means nothing.
  Operand operator()(StableHloBuilder& b, Operand x) const;

 private:
  double low_, high_;
  std::vector<double> coefficients_;
};

}  // namespace torch_pjrt::aten
