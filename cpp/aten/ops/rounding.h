#pragma once

#include "graph/stablehlo_builder.h"

namespace torch_pjrt::aten {

// x with no more precision than `element` has: for what the cpu computes in the shorter types, and
// so rounds at every step, while the row computes it in float32.
inline graph::Operand rounded_to(graph::StableHloBuilder& b, graph::Operand x,
                                 graph::ElementType element) {
  if (element == graph::ElementType::kBF16) return b.reduce_precision(x, 8, 7);
  if (element == graph::ElementType::kF16) return b.reduce_precision(x, 5, 10);
  return x;
}

}  // namespace torch_pjrt::aten
