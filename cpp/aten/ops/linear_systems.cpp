#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <ATen/ops/linalg_solve_ex.h>
#include <torch/library.h>

#include "aten/host_function.h"
#include "aten/ops/linalg.h"
#include "aten/ops/lu.h"
#include "aten/ops/triangular_blocks.h"

// Systems of linear equations, inverses and determinants by LU factors.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Type;
using Form = TriangularSystem::Form;

void solve_on_host(HostCall& call) {
  at::linalg_lu_solve_out(call.results[0], call.arguments[0], call.arguments[1], call.arguments[2],
                          /*left=*/true, /*adjoint=*/call.options[0]);
}

// attribute: adjoint; operands: factors, pivots counted from 1, right side
void emit_lu_solve(Emission& e) {
  static constexpr auto kOnHost =
      host_function<solve_on_host, MatrixOrder::kByColumns>("torch_pjrt.lu_solve");
  Builder& b = e.builder();
  const bool adjoint = e.attributes.boolean();
  if (call_host(e, kOnHost, e.operands(), {adjoint})) return;
  const Type& type = e.result_type();
  if (type.element_count() == 0) return e.result(b.zeros(type));
  const Operand a = as_batch(b, e.operand(0));
  const int64_t batch = a.dimension(0), size = a.dimension(1);
  const Operand pivots = b.subtract(b.reshape(e.operand(1), {batch, size}), 1);
  Operand x = as_batch(b, e.operand(2));
  const Operand order = swapped_order(b, pivots, size, adjoint);
  if (adjoint) {
    x = TriangularSystem{.lower = false, .form = Form::kAdjoint}.solve(b, a, x);
    x = TriangularSystem{.unit = true, .form = Form::kAdjoint}.solve(b, a, x);
    x = rows_in_order(b, x, order);
  } else {
    x = TriangularSystem{.unit = true}.solve(b, a, rows_in_order(b, x, order));
    x = TriangularSystem{.lower = false}.solve(b, a, x);
  }
  e.result(b.reshape(x, type.dimensions));
}

at::Tensor solve_columns(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& rhs,
                         bool adjoint) {
  static constexpr Operator op{"aten::linalg_lu_solve", emit_lu_solve};
  const at::Tensor a = check_lapack_dtype(lu, op);
  return Record(op)
      .tensor(a)
      .tensor(pivots)
      .tensor(rhs.resolve_conj())
      .attribute(adjoint)
      .strided(rhs.scalar_type(), rhs.sizes(), column_major(rhs.sizes()));
}

at::Tensor linalg_lu_solve(const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& rhs,
                           bool left, bool adjoint) {
  at::native::checkFloatingOrComplex(lu, "torch.linalg.lu_solve");
  TORCH_CHECK(lu.scalar_type() == rhs.scalar_type(),
              "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type ",
              lu.scalar_type(), " and B of type ", rhs.scalar_type(), " instead");
  TORCH_CHECK(pivots.scalar_type() == at::kInt,
              "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
  at::native::squareCheckInputs(lu, "torch.linalg.lu_solve");
  at::native::checkInputsSolver(lu, rhs, left, "linalg.lu_solve");
  TORCH_CHECK(columns_of(lu) == pivots.size(-1),
              "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
              "matrix");
  TORCH_CHECK(batch_of(lu) == pivots.sizes().slice(0, static_cast<size_t>(pivots.dim()) - 1),
              "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
              "pivots with shape ",
              pivots.sizes(), " instead");
  const auto [b, a] = at::native::_linalg_broadcast_batch_dims(rhs, lu, nullptr);
  const at::Tensor swaps = pivots.expand(batch_with(a, {columns_of(a)}));
  if (left) return solve_columns(a, swaps, b, adjoint);
  // X A = B is A^H X^H = B^H.
  return solve_columns(a, swaps, b.mH(), !adjoint).mH().resolve_conj();
}

using Solution = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Solution linalg_solve_ex(const at::Tensor& a, const at::Tensor& rhs, bool left, bool check_errors) {
  at::native::checkFloatingOrComplex(a, "linalg.solve");
  TORCH_CHECK(a.scalar_type() == rhs.scalar_type(),
              "linalg.solve: Expected A and B to have the same dtype, but found A of type ",
              a.scalar_type(), " and B of type ", rhs.scalar_type(), " instead");
  const bool vector = at::native::linalg_solve_is_vector_rhs(a, rhs);
  const at::Tensor b = vector ? rhs.unsqueeze(-1) : rhs;
  at::native::checkInputsSolver(a, b, left, "linalg.solve");
  TORCH_CHECK(left || !vector,
              "linalg.solve: Vector broadcasting of the left hand side is not supported for "
              "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
  const auto [lu, pivots, info] = at::linalg_lu_factor_ex(a, true, false);
  if (check_errors) at::_linalg_check_errors(info, "torch.linalg.solve_ex", a.dim() == 2);
  at::Tensor x = at::linalg_lu_solve(lu, pivots, b, left, false);
  if (vector) {
    x = x.squeeze(-1);
    // As the cpu has it: the last two of the batch's dimensions lie as a matrix would.
    if (x.dim() >= 2) x = in_columns(x);
  }
  return {x, lu, pivots, info};
}

std::tuple<at::Tensor, at::Tensor> linalg_inv_ex(const at::Tensor& a, bool check_errors) {
  at::native::squareCheckInputs(a, "linalg.inv");
  at::native::checkFloatingOrComplex(a, "linalg.inv", /*allow_low_precision_dtypes=*/false);
  const at::Tensor identity = at::eye(columns_of(a), a.options()).expand(a.sizes());
  const auto [inverse, info] = at::linalg_solve_ex(a, identity, true, false);
  if (check_errors) at::_linalg_check_errors(info, "linalg.inv_ex", a.dim() == 2);
  return {inverse, info};
}

// 1, or -1 after an odd number of swaps.
at::Tensor sign_of(const at::Tensor& pivots, c10::ScalarType dtype) {
  const at::Tensor own = at::arange(1, pivots.size(-1) + 1, pivots.options());
  const at::Tensor odd = pivots.ne(own).sum(-1).remainder(2);
  return odd.mul(-2).add(1).to(dtype);
}

// What determinants factor, and autograd counts on.
at::Tensor factored(const at::Tensor& a) {
  return a.is_contiguous() && !a.is_complex() ? a.mT() : a;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> linalg_det(const at::Tensor& a) {
  at::native::squareCheckInputs(a, "linalg.det");
  at::native::checkFloatingOrComplex(a, "linalg.det");
  const auto [lu, pivots, info] = at::linalg_lu_factor_ex(factored(a), true, false);
  const at::Tensor product = lu.diagonal(0, -2, -1).prod(-1);
  return {product.mul(sign_of(pivots, product.scalar_type())), lu, pivots};
}

Solution linalg_slogdet(const at::Tensor& a) {
  at::native::squareCheckInputs(a, "linalg.slogdet");
  at::native::checkFloatingOrComplex(a, "linalg.slogdet", /*allow_low_precision_dtypes=*/false);
  const auto [lu, pivots, info] = at::linalg_lu_factor_ex(factored(a), true, false);
  const at::Tensor diagonal = lu.diagonal(0, -2, -1);
  const at::Tensor sign = diagonal.sgn().prod(-1);
  return {sign.mul(sign_of(pivots, sign.scalar_type())), diagonal.abs().log().sum(-1), lu, pivots};
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("linalg_lu_solve", TORCH_FN(linalg_lu_solve));
  m.impl("_linalg_solve_ex", TORCH_FN(linalg_solve_ex));
  m.impl("linalg_inv_ex", TORCH_FN(linalg_inv_ex));
  m.impl("_linalg_det", TORCH_FN(linalg_det));
  m.impl("_linalg_slogdet", TORCH_FN(linalg_slogdet));
}

}  // namespace
}  // namespace torch_pjrt::aten
