#include <torch/library.h>

#include <cmath>

#include "aten/any.h"
#include "aten/ops/elementwise.h"

// Orthogonal polynomials of tensors of degrees: by their recurrences, or where the cpu takes it by
// the closed form of Chebyshev's.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::OperandList;

// The degree as an integer; -1 for what is none.
Operand degree_of(Builder& b, Operand n) {
  const Operand fits = b.less(b.abs(n), std::ldexp(1.0, 62));  // not so for NaN
  return b.convert(b.select(fits, n, b.filled_like(n, -1)), ElementType::kS64);
}

// The polynomial after `last`, the k-th, whose predecessor is `before`.
using Step = Operand (*)(Builder& b, Operand x, Operand k, Operand last, Operand before);

// The polynomial of each degree at x, where the one of degree 0 is 1. Where `skipped`, the result
// means nothing and costs no steps.
Operand recurrence(Builder& b, Operand x, Operand degree, Operand first, Step step,
                   Operand skipped) {
  const auto goes_on = [](Builder& b, OperandList state) {
    const Operand k = b.broadcast_to(state[0], state[2].dimensions());
    return b.bit_and(b.less(k, state[2]), b.bit_not(b.is_nan(state[3])));
  };
  const Operand wanted = b.select(skipped, b.zeros_like(degree), degree);
  const Operands end = b.while_loop(
      {b.scalar(ElementType::kS64, 1), x, wanted, first, b.ones_like(x)},
      [&](Builder& b, OperandList state) {
        const Operand going = goes_on(b, state);
        return Operands{any(b, going)};
      },
      [&](Builder& b, OperandList state) {
        const Operand going = goes_on(b, state);
        const Operand k =
            b.broadcast_to(b.convert(state[0], state[1].element()), state[1].dimensions());
        const Operand next = step(b, state[1], k, state[3], state[4]);
        return Operands{b.add(state[0], 1), state[1], state[2], b.select(going, next, state[3]),
                        b.select(going, state[3], state[4])};
      });
  const Operand value = b.select(b.equal(degree, 0), b.ones_like(x), end[3]);
  return b.select(b.less(degree, 0), b.zeros_like(x), value);
}

enum class Kind : uint8_t { kT, kU, kV, kW };

Operand first_chebyshev(Builder& b, Kind kind, Operand x) {
  switch (kind) {
    case Kind::kT:
      return x;
    case Kind::kU:
      return b.multiply(x, 2);
    case Kind::kV:
      return b.subtract(b.multiply(x, 2), 1);
    case Kind::kW:
      return b.add(b.multiply(x, 2), 1);
  }
  return x;
}

// For |x| < 1.
Operand closed_form(Builder& b, Kind kind, Operand x, Operand n) {
  const Operand angle = b.acos(x), half = b.multiply(angle, 0.5);
  const Operand between = b.multiply(b.add(n, 0.5), angle);
  switch (kind) {
    case Kind::kT:
      return b.cosine(b.multiply(n, angle));
    case Kind::kU:
      return b.divide(b.sine(b.multiply(b.add(n, 1), angle)), b.sine(angle));
    case Kind::kV:
      return b.divide(b.cosine(between), b.cosine(half));
    case Kind::kW:
      return b.divide(b.sine(between), b.sine(half));
  }
  return x;
}

// At x = 1, and without the sign at x = -1.
Operand at_end(Builder& b, Kind kind, Operand n, bool positive) {
  if (kind == Kind::kU) return b.add(n, 1);
  if (kind == (positive ? Kind::kW : Kind::kV)) return b.add(b.multiply(n, 2), 1);
  return b.ones_like(n);
}

template <Kind kind, int most_steps, bool shifted>
Operand chebyshev(Builder& b, Operand given, Operand n) {
  const Operand x = shifted ? b.subtract(b.multiply(given, 2), 1) : given;
  const Operand degree = degree_of(b, n), whole = b.convert(degree, x.element());
  const Operand ends = b.equal(b.abs(x), 1);
  const Operand inside = b.bit_and(b.greater(degree, most_steps), b.less(b.abs(x), 1));
  const Operand stepped = recurrence(
      b, x, degree, first_chebyshev(b, kind, x),
      [](Builder& b, Operand x, Operand, Operand last, Operand before) {
        return b.subtract(b.multiply(b.multiply(x, 2), last), before);
      },
      b.bit_or(ends, inside));
  const Operand low = at_end(b, kind, whole, false);
  const Operand odd = b.not_equal(b.bit_and(degree, 1), 0);
  const Operand end =
      b.select(b.greater(x, 0), at_end(b, kind, whole, true), b.select(odd, b.negate(low), low));
  const Operand value =
      b.select(ends, end, b.select(inside, closed_form(b, kind, x, whole), stepped));
  return b.select(b.less(degree, 0), b.zeros_like(x), value);
}

template <bool physicist>
Operand hermite(Builder& b, Operand x, Operand n) {
  const Operand degree = degree_of(b, n);
  const int64_t limit = x.element() == ElementType::kF64 ? 512 : 128;  // beyond: NaN, as on cpu
  const Operand beyond = b.greater(degree, limit);
  const Operand argument = physicist ? b.multiply(x, 2) : x;
  const Operand value = recurrence(
      b, argument, degree, argument,
      [](Builder& b, Operand x, Operand k, Operand last, Operand before) {
        const Operand factor = physicist ? b.multiply(k, 2) : k;
        return b.subtract(b.multiply(x, last), b.multiply(factor, before));
      },
      beyond);
  return b.select(beyond, b.filled_like(x, NAN), value);
}

Operand laguerre(Builder& b, Operand x, Operand n) {
  const Operand degree = degree_of(b, n), at_zero = b.equal(x, 0);
  const Operand value = recurrence(
      b, x, degree, b.subtract(1, x),
      [](Builder& b, Operand x, Operand k, Operand last, Operand before) {
        const Operand factor = b.add(b.multiply(k, 2), b.subtract(1, x));
        const Operand sum = b.subtract(b.multiply(factor, last), b.multiply(k, before));
        return b.divide(sum, b.add(k, 1));
      },
      at_zero);
  return b.select(b.bit_and(at_zero, b.greater_equal(degree, 0)), b.ones_like(x), value);
}

Operand legendre(Builder& b, Operand x, Operand n) {
  const Operand degree = degree_of(b, n), ends = b.equal(b.abs(x), 1);
  const Operand value = recurrence(
      b, x, degree, x,
      [](Builder& b, Operand x, Operand k, Operand last, Operand before) {
        const Operand factor = b.multiply(b.add(b.multiply(k, 2), 1), x);
        const Operand sum = b.subtract(b.multiply(factor, last), b.multiply(k, before));
        return b.divide(sum, b.add(k, 1));
      },
      ends);
  const Operand odd = b.not_equal(b.bit_and(degree, 1), 0);
  const Operand end = b.select(odd, x, b.ones_like(x));
  return b.select(b.bit_and(ends, b.greater_equal(degree, 0)), end, value);
}

constexpr Operator kT{"aten::special_chebyshev_polynomial_t", map<chebyshev<Kind::kT, 6, false>>};
constexpr Operator kU{"aten::special_chebyshev_polynomial_u", map<chebyshev<Kind::kU, 8, false>>};
constexpr Operator kV{"aten::special_chebyshev_polynomial_v", map<chebyshev<Kind::kV, 8, false>>};
constexpr Operator kW{"aten::special_chebyshev_polynomial_w", map<chebyshev<Kind::kW, 8, false>>};
constexpr Operator kShiftedT{"aten::special_shifted_chebyshev_polynomial_t",
                             map<chebyshev<Kind::kT, 6, true>>};
constexpr Operator kShiftedU{"aten::special_shifted_chebyshev_polynomial_u",
                             map<chebyshev<Kind::kU, 6, true>>};
constexpr Operator kShiftedV{"aten::special_shifted_chebyshev_polynomial_v",
                             map<chebyshev<Kind::kV, 6, true>>};
constexpr Operator kShiftedW{"aten::special_shifted_chebyshev_polynomial_w",
                             map<chebyshev<Kind::kW, 4, true>>};
constexpr Operator kHermiteH{"aten::special_hermite_polynomial_h", map<hermite<true>>};
constexpr Operator kHermiteHe{"aten::special_hermite_polynomial_he", map<hermite<false>>};
constexpr Operator kLaguerre{"aten::special_laguerre_polynomial_l", map<laguerre>};
constexpr Operator kLegendre{"aten::special_legendre_polynomial_p", map<legendre>};

template <const Operator& op>
at::Tensor polynomial(const at::Tensor& x, const at::Tensor& n) {
  const c10::ScalarType dtype = float_type(at::result_type(x, n));
  check_implemented(dtype == at::kFloat || dtype == at::kDouble, op, dtype);
  return binary<op, kFloating>(x, n);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("special_chebyshev_polynomial_t", TORCH_FN(polynomial<kT>));
  m.impl("special_chebyshev_polynomial_u", TORCH_FN(polynomial<kU>));
  m.impl("special_chebyshev_polynomial_v", TORCH_FN(polynomial<kV>));
  m.impl("special_chebyshev_polynomial_w", TORCH_FN(polynomial<kW>));
  m.impl("special_shifted_chebyshev_polynomial_t", TORCH_FN(polynomial<kShiftedT>));
  m.impl("special_shifted_chebyshev_polynomial_u", TORCH_FN(polynomial<kShiftedU>));
  m.impl("special_shifted_chebyshev_polynomial_v", TORCH_FN(polynomial<kShiftedV>));
  m.impl("special_shifted_chebyshev_polynomial_w", TORCH_FN(polynomial<kShiftedW>));
  m.impl("special_hermite_polynomial_h", TORCH_FN(polynomial<kHermiteH>));
  m.impl("special_hermite_polynomial_he", TORCH_FN(polynomial<kHermiteHe>));
  m.impl("special_laguerre_polynomial_l", TORCH_FN(polynomial<kLaguerre>));
  m.impl("special_legendre_polynomial_p", TORCH_FN(polynomial<kLegendre>));
}

}  // namespace
}  // namespace torch_pjrt::aten
