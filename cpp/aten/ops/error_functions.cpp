#include <ATen/native/Math.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "aten/ops/chebyshev_series.h"
#include "aten/ops/elementwise.h"

// What is made of the error function and the normal distribution; Airy's function.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// exp(x²) erfc(x)
Operand scaled_erfc(Builder& b, Operand x) {
  // As a function of y = 4 / (4 + x), which tends to 0 as y does.
  static const ChebyshevSeries series(0, 1, 64, [](double y) { return calc_erfcx(4 / y - 4) / y; });
  const Operand size = b.abs(x);
  const Operand y = b.divide(4, b.add(size, 4));
  const Operand positive = b.multiply(y, series(b, y));
  const Operand mirrored = b.subtract(b.multiply(b.exponential(b.square(x)), 2), positive);
  return b.select(b.less(x, 0), mirrored, positive);
}

Operand log_ndtr(Builder& b, Operand x) {
  const Operand t = b.multiply(x, 1 / std::numbers::sqrt2);
  const Operand low = b.subtract(b.log(b.multiply(scaled_erfc(b, b.negate(t)), 0.5)), b.square(t));
  const Operand high = b.log_plus_one(b.multiply(b.erfc(t), -0.5));
  return b.select(b.less(x, -1), low, high);
}

// The quantiles of the normal distribution.
Operand ndtri(Builder& b, Operand p) {
  // In the tails r = sqrt(-2 log p) minus a correction, which is smooth in 1 / r.
  constexpr auto correction = [](double z) {
    const double r = 1 / z;
    return r + calc_ndtri(std::exp(-r * r / 2));
  };
  static const ChebyshevSeries near_series(1.0 / 8, 0.5, 30, correction);
  static const ChebyshevSeries far_series(1.0 / 38, 1.0 / 8, 30, correction);
  const Operand least = b.minimum(p, b.subtract(1, p));
  const Operand r = b.sqrt(b.multiply(b.log(least), -2)), z = b.divide(1, r);
  const Operand size = b.subtract(r, b.select(b.less(r, 8), near_series(b, z), far_series(b, z)));
  const Operand tail = b.select(b.less(p, 0.5), b.negate(size), size);
  const Operand centre =
      b.multiply(b.erf_inv(b.subtract(b.multiply(p, 2), 1)), std::numbers::sqrt2);
  Operand value = b.select(b.greater(least, std::exp(-2.0)), centre, tail);
  value = b.select(b.equal(p, 0), b.filled_like(p, -INFINITY), value);
  value = b.select(b.equal(p, 1), b.filled_like(p, INFINITY), value);
  const Operand none = b.bit_or(b.less(p, 0), b.greater(p, 1));
  return b.select(none, b.filled_like(p, NAN), value);
}

// ---- Airy's function Ai ----

constexpr double kOscillates = -9;  // from here downwards the asymptotic series is exact

// By the Taylor series: PyTorch's own function is a millionth off below -2.09. The terms cancel:
// from long double some 1e-11 is left at -9.
double airy_near_zero(double x) {
  const long double z = static_cast<long double>(x) * x * x;
  long double f = 1, g = x, f_term = 1, g_term = x;
  for (int i = 1; i < 60; ++i) {
    f_term *= z / ((3 * i - 1) * (3 * i));
    g_term *= z / ((3 * i) * (3 * i + 1));
    f += f_term;
    g += g_term;
  }
  return static_cast<double>(0.355028053887817239260063186004L * f -
                             0.258819403792806798405183560189L * g);
}

double two_thirds_power(double x) { return 2 * x * std::sqrt(x) / 3; }

// The sums over the even and over the odd terms of the series, at 1 / zeta.
std::pair<Operand, Operand> airy_sums(Builder& b, Operand inverse) {
  std::vector<double> terms{1};
  for (int k = 1; k < 18; ++k) {
    terms.push_back(terms.back() * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) /
                    (216.0 * k * (2 * k - 1)));
  }
  const Operand square = b.negate(b.square(inverse));
  Operand even = b.zeros_like(inverse), odd = even;
  for (size_t k = terms.size() / 2; k-- > 0;) {
    even = b.add(b.multiply(even, square), terms[2 * k]);
    odd = b.add(b.multiply(odd, square), terms[2 * k + 1]);
  }
  return {even, b.multiply(odd, inverse)};
}

Operand airy(Builder& b, Operand x) {
  static const ChebyshevSeries centre(kOscillates, 2.1, 48, airy_near_zero);
  static const ChebyshevSeries decay(1.0 / 690, 1 / two_thirds_power(2), 36, [](double u) {
    const double x = std::cbrt(2.25 / (u * u));
    return airy_ai_forward(x) * std::sqrt(std::sqrt(x)) * std::exp(1 / u);
  });
  const Operand size = b.abs(x), root = b.sqrt(size);
  const Operand zeta = b.multiply(b.multiply(size, root), 2.0 / 3);
  const Operand inverse = b.divide(1, zeta), quarter = b.sqrt(root);
  const Operand high =
      b.divide(b.multiply(decay(b, inverse), b.exponential(b.negate(zeta))), quarter);
  const auto [even, odd] = airy_sums(b, inverse);
  const Operand angle = b.subtract(zeta, std::numbers::pi / 4);
  const Operand wave = b.add(b.multiply(b.cosine(angle), even), b.multiply(b.sine(angle), odd));
  const Operand low = b.divide(b.multiply(wave, std::sqrt(std::numbers::inv_pi)), quarter);
  Operand value = b.select(b.greater_equal(x, 2), high, centre(b, x));
  value = b.select(b.less(x, kOscillates), low, value);
  value = b.select(b.greater(x, 103.892), b.zeros_like(x), value);  // as the cpu
  return b.select(b.is_inf(x), b.filled_like(x, NAN), value);
}

#define OPERATOR(id, name, ...)                                           \
  constexpr Operator id {                                                 \
    "aten::" name, map<[](Builder& b, Operand x) { return __VA_ARGS__; }> \
  }
OPERATOR(kScaledErfc, "special_erfcx", scaled_erfc(b, x));
OPERATOR(kLogNdtr, "special_log_ndtr", log_ndtr(b, x));
OPERATOR(kNdtri, "special_ndtri", ndtri(b, x));
OPERATOR(kAiry, "special_airy_ai", airy(b, x));
#undef OPERATOR

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("special_erfcx", TORCH_FN(unary_of_float<kScaledErfc>));
  m.impl("special_log_ndtr", TORCH_FN(unary_of_float<kLogNdtr>));
  m.impl("special_ndtri", TORCH_FN(unary_of_float<kNdtri>));
  m.impl("special_airy_ai", TORCH_FN(unary_of_float<kAiry>));
}

}  // namespace
}  // namespace torch_pjrt::aten
