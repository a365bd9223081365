#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// log1p(m) - m
inline Operand log_ratio(StableHloBuilder& b, Operand m) {
  // Near 0 the difference cancels: its series, up to what float64 tells.
  Operand series = b.zeros_like(m);
  for (int k = 12; k >= 2; --k) {
    series = b.add(b.multiply(series, m), (k % 2 ? 1.0 : -1.0) / k);
  }
  series = b.multiply(series, b.square(m));
  return b.select(b.less(b.abs(m), 0.05), series, b.subtract(b.log_plus_one(m), m));
}

}  // namespace torch_pjrt::aten
