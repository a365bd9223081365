#include <ATen/native/Math.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "aten/ops/chebyshev_series.h"
#include "aten/ops/elementwise.h"

// Bessel functions. Each has one form near 0 and one far from it.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

constexpr double kTwoOverPi = 2 * std::numbers::inv_pi;

// ---- modified, of the first kind ----

// exp(-|x|) times I of order 0 or 1.
Operand scaled_i(Builder& b, Operand x, int order) {
  static const ChebyshevSeries near_i0(0, 8, 40, [](double x) { return calc_i0e(x); });
  static const ChebyshevSeries far_i0(0, 1.0 / 8, 30,
                                      [](double u) { return calc_i0e(1 / u) / std::sqrt(u); });
  static const ChebyshevSeries near_i1(0, 8, 40, [](double x) { return calc_i1e(x) / x; });
  static const ChebyshevSeries far_i1(0, 1.0 / 8, 30,
                                      [](double u) { return calc_i1e(1 / u) / std::sqrt(u); });
  const Operand size = b.abs(x);
  const Operand is_near = b.less_equal(size, 8);
  const Operand inverse = b.divide(1, size), root = b.sqrt(size);
  if (order == 0) {
    return b.select(is_near, near_i0(b, size), b.divide(far_i0(b, inverse), root));
  }
  const Operand far = b.multiply(b.sign(x), b.divide(far_i1(b, inverse), root));
  return b.select(is_near, b.multiply(x, near_i1(b, size)), far);
}

Operand modified_i(Builder& b, Operand x, int order) {
  return b.multiply(b.exponential(b.abs(x)), scaled_i(b, x, order));
}

// ---- modified, of the second kind: inf at 0, NaN below ----

double i0(double x) { return modified_bessel_i0_forward(x); }
double i1(double x) { return modified_bessel_i1_forward(x); }

// exp(x) times K of order 0 or 1, or without the factor.
Operand modified_k(Builder& b, Operand x, int order, bool scaled) {
  static const ChebyshevSeries near_k0(0, 4, 14, [](double z) {
    const double x = std::sqrt(z);
    return modified_bessel_k0_forward(x) + std::log(x / 2) * i0(x);
  });
  static const ChebyshevSeries near_k1(0, 4, 14, [](double z) {
    const double x = std::sqrt(z);
    return x * (modified_bessel_k1_forward(x) - std::log(x / 2) * i1(x));
  });
  static const ChebyshevSeries far_k0(
      0, 0.5, 34, [](double u) { return scaled_modified_bessel_k0_forward(1 / u) / std::sqrt(u); });
  static const ChebyshevSeries far_k1(
      0, 0.5, 34, [](double u) { return scaled_modified_bessel_k1_forward(1 / u) / std::sqrt(u); });
  const Operand square = b.square(x), inverse = b.divide(1, x);
  const Operand first_kind = b.multiply(b.log(b.multiply(x, 0.5)), modified_i(b, x, order));
  Operand close = order == 0 ? b.subtract(near_k0(b, square), first_kind)
                             : b.add(b.divide(near_k1(b, square), x), first_kind);
  Operand far = b.divide((order == 0 ? far_k0 : far_k1)(b, inverse), b.sqrt(x));
  if (scaled) {
    close = b.multiply(close, b.exponential(x));
  } else {
    far = b.multiply(far, b.exponential(b.negate(x)));
  }
  const Operand value = b.select(b.less_equal(x, 2), close, far);
  const Operand at_zero = b.select(b.equal(x, 0), b.filled_like(x, INFINITY), value);
  return b.select(b.less(x, 0), b.filled_like(x, NAN), at_zero);
}

// ---- of the first and second kind ----

// Far from 0 both kinds are p(u) and q(u) times the sine and cosine of a phase, where u = 25 / x².
template <int order>
double phase(double x) {
  return x - (order == 0 ? 1 : 3) * std::numbers::pi / 4;
}
template <int order>
double first(double x) {
  return order == 0 ? bessel_j0_forward(x) : bessel_j1_forward(x);
}
template <int order>
double second(double x) {
  return order == 0 ? bessel_y0_forward(x) : bessel_y1_forward(x);
}
template <int order>
double amplitude_p(double u) {
  const double x = 5 / std::sqrt(u), t = phase<order>(x);
  return std::sqrt(x) * (first<order>(x) * std::cos(t) + second<order>(x) * std::sin(t));
}
template <int order>
double amplitude_q(double u) {
  const double x = 5 / std::sqrt(u), t = phase<order>(x);
  return x * std::sqrt(x) * (second<order>(x) * std::cos(t) - first<order>(x) * std::sin(t));
}

template <int order>
Operand far_from_zero(Builder& b, Operand x, bool second_kind) {
  static const ChebyshevSeries p_series(0, 1, 24, amplitude_p<order>);
  static const ChebyshevSeries q_series(0, 1, 24, amplitude_q<order>);
  const Operand u = b.divide(25, b.square(x));
  const Operand angle = b.subtract(x, (order == 0 ? 1 : 3) * std::numbers::pi / 4);
  const Operand p = p_series(b, u), q = b.divide(q_series(b, u), x);
  const Operand sine = b.sine(angle), cosine = b.cosine(angle);
  const Operand sum = second_kind ? b.add(b.multiply(p, sine), b.multiply(q, cosine))
                                  : b.subtract(b.multiply(p, cosine), b.multiply(q, sine));
  return b.divide(sum, b.sqrt(x));
}

template <int order>
Operand first_kind_near_zero(Builder& b, Operand x) {
  static const ChebyshevSeries series(0, 25, 24, [](double z) {
    const double x = std::sqrt(z);
    return order == 0 ? first<order>(x) : first<order>(x) / x;
  });
  const Operand value = series(b, b.square(x));
  return order == 0 ? value : b.multiply(value, x);
}

template <int order>
Operand bessel_j(Builder& b, Operand x) {
  const Operand size = b.abs(x);
  const Operand far = far_from_zero<order>(b, size, false);
  const Operand value = b.select(b.less_equal(size, 5), first_kind_near_zero<order>(b, size), far);
  return order == 0 ? value : b.multiply(b.select(b.is_nan(x), x, b.sign(x)), value);
}

// -inf at 0, NaN below
template <int order>
Operand bessel_y(Builder& b, Operand x) {
  static const ChebyshevSeries series(0, 25, 26, [](double z) {
    const double x = std::sqrt(z);
    const double logarithm = kTwoOverPi * std::log(x) * first<order>(x);
    if (order == 0) return second<order>(x) - logarithm;
    return (second<order>(x) - logarithm + kTwoOverPi / x) / x;
  });
  const Operand rest = series(b, b.square(x));
  const Operand logarithm =
      b.multiply(b.multiply(b.log(x), first_kind_near_zero<order>(b, x)), kTwoOverPi);
  Operand close = b.add(order == 0 ? rest : b.multiply(rest, x), logarithm);
  if (order == 1) close = b.subtract(close, b.divide(kTwoOverPi, x));
  const Operand value = b.select(b.less_equal(x, 5), close, far_from_zero<order>(b, x, true));
  const Operand at_zero = b.select(b.equal(x, 0), b.filled_like(x, -INFINITY), value);
  return b.select(b.less(x, 0), b.filled_like(x, NAN), at_zero);
}

Operand spherical_j0(Builder& b, Operand x) {
  const Operand value = b.select(b.equal(x, 0), b.ones_like(x), b.divide(b.sine(x), x));
  return b.select(b.is_inf(x), b.zeros_like(x), value);
}

#define OPERATOR(id, name, ...)                                           \
  constexpr Operator id {                                                 \
    "aten::" name, map<[](Builder& b, Operand x) { return __VA_ARGS__; }> \
  }
OPERATOR(kI0, "i0", modified_i(b, x, 0));
OPERATOR(kI0e, "special_i0e", scaled_i(b, x, 0));
OPERATOR(kI1, "special_i1", modified_i(b, x, 1));
OPERATOR(kI1e, "special_i1e", scaled_i(b, x, 1));
OPERATOR(kModifiedI0, "special_modified_bessel_i0", modified_i(b, x, 0));
OPERATOR(kModifiedI1, "special_modified_bessel_i1", modified_i(b, x, 1));
OPERATOR(kModifiedK0, "special_modified_bessel_k0", modified_k(b, x, 0, false));
OPERATOR(kModifiedK1, "special_modified_bessel_k1", modified_k(b, x, 1, false));
OPERATOR(kScaledK0, "special_scaled_modified_bessel_k0", modified_k(b, x, 0, true));
OPERATOR(kScaledK1, "special_scaled_modified_bessel_k1", modified_k(b, x, 1, true));
OPERATOR(kJ0, "special_bessel_j0", bessel_j<0>(b, x));
OPERATOR(kJ1, "special_bessel_j1", bessel_j<1>(b, x));
OPERATOR(kY0, "special_bessel_y0", bessel_y<0>(b, x));
OPERATOR(kY1, "special_bessel_y1", bessel_y<1>(b, x));
OPERATOR(kSphericalJ0, "special_spherical_bessel_j0", spherical_j0(b, x));
#undef OPERATOR

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("i0", TORCH_FN((unary<kI0, kFloating>)));
  m.impl("i0_", TORCH_FN((unary_<kI0, kFloating>)));
  m.impl("special_i0e", TORCH_FN((unary<kI0e, kFloating>)));
  m.impl("special_i1", TORCH_FN((unary<kI1, kFloating>)));
  m.impl("special_i1e", TORCH_FN((unary<kI1e, kFloating>)));
  m.impl("special_modified_bessel_i0", TORCH_FN(unary_of_float<kModifiedI0>));
  m.impl("special_modified_bessel_i1", TORCH_FN(unary_of_float<kModifiedI1>));
  m.impl("special_modified_bessel_k0", TORCH_FN(unary_of_float<kModifiedK0>));
  m.impl("special_modified_bessel_k1", TORCH_FN(unary_of_float<kModifiedK1>));
  m.impl("special_scaled_modified_bessel_k0", TORCH_FN(unary_of_float<kScaledK0>));
  m.impl("special_scaled_modified_bessel_k1", TORCH_FN(unary_of_float<kScaledK1>));
  m.impl("special_bessel_j0", TORCH_FN(unary_of_float<kJ0>));
  m.impl("special_bessel_j1", TORCH_FN(unary_of_float<kJ1>));
  m.impl("special_bessel_y0", TORCH_FN(unary_of_float<kY0>));
  m.impl("special_bessel_y1", TORCH_FN(unary_of_float<kY1>));
  m.impl("special_spherical_bessel_j0", TORCH_FN(unary_of_float<kSphericalJ0>));
}

}  // namespace
}  // namespace torch_pjrt::aten
