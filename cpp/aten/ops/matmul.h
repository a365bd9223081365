#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// The type in which products of `element` are summed: f32 for the half precisions.
graph::ElementType accumulation_type(graph::ElementType element);

// A product whose half-precision operands are summed in f32, which is also its element type.
Operand wide_dot(StableHloBuilder& builder, Operand lhs, Operand rhs,
                 const graph::DotDimensions& dimensions);

}  // namespace torch_pjrt::aten
