#pragma once

#include "graph/stablehlo_builder.h"

namespace torch_pjrt::aten {

// Whether one of the flags is set, as a scalar.
inline graph::Operand any(graph::StableHloBuilder& b, graph::Operand flags) {
  return b.reduce(flags, graph::Reducer::kOr, graph::all_dims(flags));
}

}  // namespace torch_pjrt::aten
