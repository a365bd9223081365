#pragma once

#include "aten/ops/elementwise.h"

namespace torch_pjrt::aten {

// The Hurwitz zeta function as PyTorch has it, with x <= 1 and q <= 0 too: inf at the poles and NaN
// where no real value is.
Operand zeta(StableHloBuilder& b, Operand x, Operand q);

}  // namespace torch_pjrt::aten
