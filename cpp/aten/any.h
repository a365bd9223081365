#pragma once

#include "graph/stablehlo_builder.h"

namespace torch_pjrt::aten {

// How many of the flags are set, as a float32 scalar: exact up to 2^24. XLA CPU makes one loop of a
// floating sum to a scalar, and of any other reduction a tree that takes 0.2 s to compile.
inline graph::Operand count(graph::StableHloBuilder& b, graph::Operand flags) {
  const graph::Operand ones = b.convert(flags, graph::ElementType::kF32);
  return b.reduce(ones, graph::Reducer::kAdd, graph::all_dims(flags));
}

// Whether one of the flags is set, as a scalar.
inline graph::Operand any(graph::StableHloBuilder& b, graph::Operand flags) {
  return b.greater(count(b, flags), 0);
}

}  // namespace torch_pjrt::aten
