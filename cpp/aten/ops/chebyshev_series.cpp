#include "aten/ops/chebyshev_series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace torch_pjrt::aten {

ChebyshevSeries::ChebyshevSeries(double low, double high, int terms, double (*function)(double))
    : low_(low), high_(high), coefficients_(static_cast<size_t>(terms)) {
  std::vector<double> samples;
  const double quarter = std::numbers::pi / (2 * terms);
  for (int i = 0; i < terms; ++i) {
    const double node = std::cos((2 * i + 1) * quarter);
    samples.push_back(function((low + high) / 2 + (high - low) / 2 * node));
  }
  for (int k = 0; k < terms; ++k) {
    double sum = 0;
    for (int i = 0; i < terms; ++i) {
      sum += samples[static_cast<size_t>(i)] * std::cos(k * (2 * i + 1) * quarter);
    }
    coefficients_[static_cast<size_t>(k)] = sum * (k == 0 ? 1 : 2) / terms;
  }
}

// Clenshaw's recurrence, from the last term that the element type can tell.
Operand ChebyshevSeries::operator()(StableHloBuilder& b, Operand x) const {
  const bool is_double = x.element() == graph::ElementType::kF64;
  const double resolution = is_double ? std::numeric_limits<double>::epsilon()
                                      : double{std::numeric_limits<float>::epsilon()};
  double most = 0;
  for (double c : coefficients_) most = std::max(most, std::abs(c));
  size_t used = coefficients_.size();
  while (used > 1 && std::abs(coefficients_[used - 1]) < most * resolution / 16) --used;
  const Operand place =
      b.divide(b.subtract(x, (low_ + high_) / 2), (high_ - low_) / 2);  // in [-1, 1]
  const Operand twice = b.multiply(place, 2);
  Operand last = b.zeros_like(x), before = last;
  for (size_t k = used - 1; k > 0; --k) {
    const Operand next = b.add(b.subtract(b.multiply(twice, last), before), coefficients_[k]);
    before = last;
    last = next;
  }
  return b.add(b.subtract(b.multiply(place, last), before), coefficients_[0]);
}

}  // namespace torch_pjrt::aten
