#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// For every value, how many elements of a sorted sequence come before it: those less than the
// value, or with `right` also those equal to it. `sequence` is [n], or [rows, n] with values [rows,
// m]. A NaN stands at the end. The result is s32 of the values' shape.
Operand emit_search(StableHloBuilder& b, Operand sequence, Operand values, bool right);

}  // namespace torch_pjrt::aten
