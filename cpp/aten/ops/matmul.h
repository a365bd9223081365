#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// The type in which products of `element` are summed: f32 for the half precisions.
graph::ElementType accumulation_type(graph::ElementType element);

// A product whose half-precision operands are summed in f32, which is also its element type.
Operand wide_dot(StableHloBuilder& builder, Operand lhs, Operand rhs,
                 const graph::DotDimensions& dimensions);

// x with dimension `dim` contracted with dimension `contracted` of a matrix; the matrix's other
// dimension takes its place.
Operand multiply_dimension(StableHloBuilder& builder, Operand x, Operand matrix, int64_t dim,
                           int64_t contracted);

}  // namespace torch_pjrt::aten
