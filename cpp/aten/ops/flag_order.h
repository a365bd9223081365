#pragma once

#include "graph/stablehlo_builder.h"

namespace torch_pjrt::aten {

// How many of a list of flags are set before each, as s32, for lists of up to 2^24. A cumulative
// sum would say so too, but runs and compiles twice as long on XLA CPU.
inline graph::Operand count_before(graph::StableHloBuilder& b, graph::Operand flags) {
  using graph::ElementType;
  using graph::Operand;
  constexpr int64_t kWidth = 128;
  // Of every element, the sum of those before it: within its row by a matrix product, which is
  // exact, and of the rows before.
  const auto before = [&](const auto& self, Operand x) -> Operand {
    const int64_t size = x.dimension(0), rows = (size + kWidth - 1) / kWidth;
    const Operand table = b.reshape(b.pad(x, 0, {0}, {rows * kWidth - size}), {rows, kWidth});
    const graph::Type square{ElementType::kS32, {kWidth, kWidth}};
    const Operand earlier = b.less(b.iota(square, 0), b.iota(square, 1));
    Operand sums = b.matmul(table, b.convert(earlier, ElementType::kF32));
    if (rows > 1) {
      const Operand totals =
          b.add(b.select_index(sums, 1, kWidth - 1), b.select_index(table, 1, kWidth - 1));
      sums = b.add(sums, b.broadcast_in_dim(self(self, totals), sums.dimensions(), {0}));
    }
    return b.slice_dim(b.flatten(sums), 0, 0, size);
  };
  return b.convert(before(before, b.convert(flags, ElementType::kF32)), ElementType::kS32);
}

}  // namespace torch_pjrt::aten
