#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// The order, s32 [batch, rows], into which swapping row i with row pivots[:, i] for every i, first
// to last (or last to first), brings the rows. `pivots` are s32 [batch, steps] and count from 0.
Operand swapped_order(StableHloBuilder& b, Operand pivots, int64_t rows, bool last_to_first);

// x, [batch, rows, columns], with its rows in that order.
Operand rows_in_order(StableHloBuilder& b, Operand x, Operand order);

}  // namespace torch_pjrt::aten
