#pragma once

#include "graph/stablehlo_builder.h"

namespace torch_pjrt::aten {

// log(exp(x) + exp(y)) without overflow; infinities of one sign stay what they are.
inline graph::Operand log_add_exp(graph::StableHloBuilder& b, graph::Operand x, graph::Operand y) {
  using graph::Operand;
  const bool complex = pjrt::is_complex(x.element());
  // Complex numbers have no order: their real parts say which term is greater.
  const Operand u = complex ? b.real(x) : x, v = complex ? b.real(y) : y;
  const Operand first = b.greater_equal(u, v);
  const Operand nan = b.bit_or(b.is_nan(u), b.is_nan(v));
  const Operand most = b.select(first, x, y), least = b.select(first, y, x);
  const Operand sum = b.add(most, b.log_plus_one(b.exponential(b.subtract(least, most))));
  const Operand same_infinity = b.bit_and(b.is_inf(u), b.equal(u, v));
  return b.select(nan, b.add(x, y), b.select(same_infinity, x, sum));
}

}  // namespace torch_pjrt::aten
