#include "aten/ops/zeta.h"

#include <cmath>

#include "aten/any.h"

namespace torch_pjrt::aten {

Operand zeta(StableHloBuilder& b, Operand x, Operand q) {
  using graph::OperandList;
  const Operand infinite = b.filled_like(x, INFINITY), nan = b.filled_like(x, NAN);
  const auto is_whole = [&](Operand y) { return b.equal(b.floor(y), y); };
  const Operand pole = b.bit_and(b.less_equal(q, 0), is_whole(q));
  // The terms of negative q one after the other, then the series from the first positive one.
  const auto goes_on = [](StableHloBuilder& b, Operand q) { return b.less(q, 0); };
  const Operands sum = b.while_loop(
      {b.select(pole, b.ones_like(q), q), x, b.zeros_like(x)},
      [&](StableHloBuilder& b, OperandList state) {
        const Operand going = goes_on(b, state[0]);
        return Operands{any(b, going)};
      },
      [&](StableHloBuilder& b, OperandList state) {
        const Operand going = goes_on(b, state[0]);
        const Operand term = b.power(state[0], b.negate(state[1]));
        return Operands{b.select(going, b.add(state[0], 1), state[0]), state[1],
                        b.select(going, b.add(state[2], term), state[2])};
      });
  Operand result = b.add(sum[2], b.zeta(x, sum[0]));
  result = b.select(b.bit_and(b.less(q, 0), b.bit_not(is_whole(x))), nan, result);
  result = b.select(pole, infinite, result);
  result = b.select(b.less(x, 1), nan, result);
  result = b.select(b.equal(x, 1), infinite, result);
  // Of a sum to the power of infinity its largest term is left; for q > 1 the cpu has NaN.
  const Operand largest = b.select(b.equal(q, 1), b.ones_like(q), infinite);
  return b.select(b.bit_and(b.equal(x, infinite), b.less_equal(q, 1)), largest, result);
}

}  // namespace torch_pjrt::aten
