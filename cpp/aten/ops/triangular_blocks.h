#pragma once

#include "aten/record.h"

namespace torch_pjrt::aten {

// A triangular system of equations: x with op(a) x = rhs, or x op(a) = rhs where `left` is false.
struct TriangularSystem {
  using Form = StableHloBuilder::TriangularForm;

  bool left = true, lower = true, unit = false;
  Form form = Form::kNoTranspose;

  // Of a batch of matrices `a` and as many right sides, [batch..., rows, columns]. Where a zero on
  // the diagonal divides, the results are infinite or NaN from there on.
  Operand solve(StableHloBuilder& b, Operand a, Operand rhs) const;
};

}  // namespace torch_pjrt::aten
