#pragma once

#include "aten/ops/elementwise.h"

namespace torch_pjrt::aten {

// `steps` numbers from `start` to `end`, up to the middle counted from the start and then from the
// end, with the bits that the cpu's linspace gives for a dtype of that element. `intervals` is
// steps - 1, not a constant: XLA multiplies by the reciprocal of those. All three are scalars; the
// result has the compute type of `element`.
Operand evenly_spaced(StableHloBuilder& b, Operand start, Operand end, Operand intervals,
                      int64_t steps, ElementType element);

}  // namespace torch_pjrt::aten
