#include <torch/library.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "aten/any.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/log_ratio.h"

// The regularised incomplete gamma functions: P(a, x) (lower) and Q(a, x) = 1 - P (upper).
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::OperandList;

constexpr double kLargeOrder = 1e4;  // from here the asymptotic expansion is exact

double resolution(Operand x) {
  return x.element() == ElementType::kF64 ? std::numeric_limits<double>::epsilon()
                                          : double{std::numeric_limits<float>::epsilon()};
}

// x^a exp(-x) / gamma(a). For large a from the ratio of x and a, since the powers overflow.
Operand power_term(Builder& b, Operand a, Operand x) {
  const Operand plain =
      b.exponential(b.subtract(b.subtract(b.multiply(a, b.log(x)), x), b.lgamma(a)));
  const Operand inverse = b.divide(1, a), square = b.square(inverse);
  // Stirling's series: what gamma(a) is beside sqrt(2 pi / a) (a / e)^a.
  Operand stirling = b.filled_like(a, 1.0 / 1188);
  for (double c : {-1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12}) {
    stirling = b.add(b.multiply(stirling, square), c);
  }
  stirling = b.multiply(stirling, inverse);
  const Operand ratio = log_ratio(b, b.divide(b.subtract(x, a), a));
  const Operand large = b.multiply(b.exponential(b.subtract(b.multiply(a, ratio), stirling)),
                                   b.sqrt(b.divide(a, 2 * std::numbers::pi)));
  return b.select(b.greater(a, 10), large, plain);
}

// P by its power series, where `wanted`: x up to about a.
Operand lower_series(Builder& b, Operand a, Operand x, Operand wanted) {
  const auto goes_on = [](Builder& b, OperandList s) {
    return b.bit_and(s[0], b.greater(s[4], b.multiply(s[3], resolution(s[3]) / 4)));
  };
  const Operands end = b.while_loop(
      {wanted, x, a, b.ones_like(x), b.ones_like(x)},
      [&](Builder& b, OperandList s) { return Operands{any(b, goes_on(b, s))}; },
      [&](Builder& b, OperandList s) {
        const Operand going = goes_on(b, s), r = b.add(s[2], 1);
        const Operand term = b.multiply(s[4], b.divide(s[1], r));
        return Operands{s[0], s[1], b.select(going, r, s[2]),
                        b.select(going, b.add(s[3], term), s[3]), b.select(going, term, s[4])};
      });
  return b.divide(b.multiply(power_term(b, a, x), end[3]), a);
}

// Q by its continued fraction (Lentz), where `wanted`: x from about a.
Operand upper_fraction(Builder& b, Operand a, Operand x, Operand wanted) {
  const double tiny = 1e-30;
  const auto goes_on = [](Builder& b, OperandList s) {
    const Operand change = b.abs(b.subtract(s[7], 1));
    return b.bit_and(s[0], b.greater(change, resolution(s[7])));
  };
  const auto kept_from_zero = [&](Builder& b, Operand v) {
    return b.select(b.less(b.abs(v), tiny), b.filled_like(v, tiny), v);
  };
  const Operand safe = b.select(wanted, x, b.add(a, 2));
  const Operand first = b.subtract(b.add(safe, 1), a);
  const Operand reciprocal = b.divide(1, first);
  // wanted, a, step, b, c, d, fraction, last factor
  const Operands end = b.while_loop(
      {wanted, a, b.zeros_like(x), first, b.filled_like(x, 1 / tiny), reciprocal, reciprocal,
       b.zeros_like(x)},
      [&](Builder& b, OperandList s) { return Operands{any(b, goes_on(b, s))}; },
      [&](Builder& b, OperandList s) {
        const Operand going = goes_on(b, s), step = b.add(s[2], 1);
        const Operand numerator = b.multiply(step, b.subtract(s[1], step));
        const Operand base = b.add(s[3], 2);
        const Operand d = b.divide(1, kept_from_zero(b, b.add(b.multiply(numerator, s[5]), base)));
        const Operand c = kept_from_zero(b, b.add(base, b.divide(numerator, s[4])));
        const Operand factor = b.multiply(c, d);
        return Operands{s[0],
                        s[1],
                        b.select(going, step, s[2]),
                        b.select(going, base, s[3]),
                        b.select(going, c, s[4]),
                        b.select(going, d, s[5]),
                        b.select(going, b.multiply(s[6], factor), s[6]),
                        b.select(going, factor, s[7])};
      });
  return b.multiply(power_term(b, a, x), end[6]);
}

// Q for x up to about 1.1 and a not much larger, where 1 - P would cancel.
Operand upper_series(Builder& b, Operand a, Operand x) {
  Operand factor = b.ones_like(x), sum = b.zeros_like(x);
  for (int n = 1; n < 20; ++n) {
    factor = b.multiply(factor, b.divide(b.negate(x), n));
    sum = b.add(sum, b.divide(factor, b.add(a, n)));
  }
  const Operand power = b.multiply(a, b.log(x));
  const Operand head = b.negate(b.exponential_minus_one(b.subtract(power, b.lgamma(b.add(a, 1)))));
  return b.subtract(head, b.multiply(b.exponential(b.subtract(power, b.lgamma(a))), sum));
}

// Temme's uniform expansion for large a: Q for sign +1, P for -1.
Operand asymptotic(Builder& b, Operand a, Operand x, bool upper) {
  const Operand ratio = b.divide(b.subtract(x, a), a);
  // Infinite where x / a rounds to 0.
  const Operand half_square = b.minimum(b.negate(log_ratio(b, ratio)), 100);
  const Operand eta = b.multiply(b.sign(ratio), b.sqrt(b.multiply(half_square, 2)));
  const auto polynomial = [&](std::initializer_list<double> highest_first) {
    Operand sum = b.zeros_like(eta);
    for (double c : highest_first) sum = b.add(b.multiply(sum, eta), c);
    return sum;
  };
  const Operand c0 =
      polynomial({-139.0 / 777600, 1.0 / 2835, 1.0 / 864, -2.0 / 135, 1.0 / 12, -1.0 / 3});
  const Operand c1 = polynomial({-77.0 / 77760, 1.0 / 378, -1.0 / 288, -1.0 / 540});
  const Operand gauss = b.divide(b.exponential(b.multiply(b.negate(a), half_square)),
                                 b.sqrt(b.multiply(a, 2 * std::numbers::pi)));
  const Operand rest = b.multiply(gauss, b.add(c0, b.divide(c1, a)));
  const Operand argument = b.multiply(eta, b.sqrt(b.multiply(a, 0.5)));
  if (upper) return b.add(b.multiply(b.erfc(argument), 0.5), rest);
  return b.subtract(b.multiply(b.erfc(b.negate(argument)), 0.5), rest);
}

template <bool upper>
Operand incomplete_gamma(Builder& b, Operand a, Operand x) {
  const Operand ordinary = b.bit_and(b.bit_and(b.greater(a, 0), b.greater(x, 0)),
                                     b.bit_and(b.is_finite(a), b.is_finite(x)));
  const Operand is_large = b.bit_and(ordinary, b.greater(a, kLargeOrder));
  const Operand small = b.bit_and(ordinary, b.bit_not(is_large));
  const Operand by_fraction = b.bit_and(small, b.bit_and(b.greater(x, 1.1), b.greater_equal(x, a)));
  const Operand by_series = b.bit_and(small, b.bit_not(by_fraction));
  const Operand p = lower_series(b, a, x, by_series);
  const Operand q = upper_fraction(b, a, x, by_fraction);
  Operand value;
  if (upper) {
    const Operand threshold =
        b.select(b.less_equal(x, 0.5), b.divide(-0.4, b.log(x)), b.multiply(x, 1.1));
    const Operand cancels = b.bit_and(b.less_equal(x, 1.1), b.less_equal(a, threshold));
    value = b.select(by_fraction, q, b.select(cancels, upper_series(b, a, x), b.subtract(1, p)));
  } else {
    value = b.select(by_fraction, b.subtract(1, q), p);
  }
  value = b.select(is_large, asymptotic(b, a, x, upper), value);
  // The ends, in the order in which later ones win; NaN beside them is ignored, as by the cpu.
  const Operand none = b.filled_like(x, upper ? 1 : 0), all = b.filled_like(x, upper ? 0 : 1);
  const Operand nan = b.filled_like(x, NAN);
  value = b.select(b.bit_or(b.is_nan(a), b.is_nan(x)), nan, value);
  value = b.select(b.is_inf(x), all, value);
  value = b.select(b.is_inf(a), b.select(b.is_inf(x), nan, none), value);
  value = b.select(b.equal(x, 0), none, value);
  value = b.select(b.equal(a, 0), b.select(b.greater(x, 0), all, nan), value);
  return b.select(b.bit_or(b.less(x, 0), b.less(a, 0)), nan, value);
}

constexpr Operator kLower{"aten::igamma", map<incomplete_gamma<false>>};
constexpr Operator kUpper{"aten::igammac", map<incomplete_gamma<true>>};

template <const Operator& op>
at::Tensor of_inexact(const at::Tensor& self, const at::Tensor& other) {
  const c10::ScalarType dtype = at::result_type(self, other);
  check_implemented(c10::isFloatingType(dtype), op, dtype);
  return binary<op, kSame>(self, other);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("igamma", TORCH_FN(of_inexact<kLower>));
  m.impl("igammac", TORCH_FN(of_inexact<kUpper>));
}

}  // namespace
}  // namespace torch_pjrt::aten
