#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/linalg_ldl_factor_ex.h>
#include <ATen/ops/linalg_ldl_solve.h>
#include <torch/library.h>

#include "aten/cpu_fallback.h"
#include "aten/host_function.h"
#include "aten/ops/linalg.h"

// LDL factors: PyTorch's own, called by the program or run on the cpu as in spectra.cpp.
namespace torch_pjrt::aten {
namespace {

using LdlFactors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void ldl_factor_on_host(HostCall& call) {
  at::linalg_ldl_factor_ex_out(call.results[0], call.results[1], call.results[2], call.arguments[0],
                               /*hermitian=*/call.options[0], /*check_errors=*/false);
}

// attribute: hermitian; results: factors, pivots, and the first zero of the diagonal, from 1
constexpr Operator kLdlFactor{
    "aten::linalg_ldl_factor_ex", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<ldl_factor_on_host, MatrixOrder::kByColumns>("torch_pjrt.ldl_factor");
      must_call_host(e, kOnHost, {e.operand(0)}, {e.attributes.boolean()});
    }};

LdlFactors ldl_factor_ex(const at::Tensor& self, bool hermitian, bool check_errors) {
  if (!calls_host_functions(self)) {
    return at::native::call_fallback_fn<&run_on_cpu, at::_ops::linalg_ldl_factor_ex>::call(
        self, hermitian, check_errors);
  }
  at::native::squareCheckInputs(self, "torch.linalg.ldl_factor_ex");
  at::native::checkFloatingOrComplex(self, "torch.linalg.ldl_factor_ex");
  const at::Tensor a = check_lapack_dtype(self, kLdlFactor);
  const auto results = Record(kLdlFactor)
                           .tensor(a)
                           .attribute(hermitian)
                           .results({{a.scalar_type(), a.sizes()},
                                     {at::kInt, batch_with(a, {rows_of(a)})},
                                     {at::kInt, batch_of(a)}});
  if (check_errors) {
    at::_linalg_check_errors(results[2], "torch.linalg.ldl_factor_ex", a.dim() == 2);
  }
  return {in_columns(results[0]), results[1], results[2]};
}

void ldl_solve_on_host(HostCall& call) {
  at::linalg_ldl_solve_out(call.results[0], call.arguments[0], call.arguments[1], call.arguments[2],
                           /*hermitian=*/call.options[0]);
}

// attribute: hermitian; operands: factors, pivots, right side, of one batch
constexpr Operator kLdlSolve{
    "aten::linalg_ldl_solve", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<ldl_solve_on_host, MatrixOrder::kByColumns>("torch_pjrt.ldl_solve");
      must_call_host(e, kOnHost, e.operands(), {e.attributes.boolean()});
    }};

at::Tensor ldl_solve(const at::Tensor& factors, const at::Tensor& pivots, const at::Tensor& rhs,
                     bool hermitian) {
  if (!calls_host_functions(factors)) {
    return at::native::call_fallback_fn<&run_on_cpu, at::_ops::linalg_ldl_solve>::call(
        factors, pivots, rhs, hermitian);
  }
  at::native::squareCheckInputs(factors, "torch.linalg.ldl_solve");
  at::native::checkFloatingOrComplex(factors, "torch.linalg.ldl_solve");
  at::native::linearSolveCheckInputs(rhs, factors, "torch.linalg.ldl_solve");
  TORCH_CHECK(rhs.dim() >= 2,
              "torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has ",
              rhs.dim(), " dimensions instead");
  TORCH_CHECK(batch_with(factors, {columns_of(factors)}) == pivots.sizes(),
              "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but "
              "got pivots with shape ",
              pivots.sizes(), " instead");
  TORCH_CHECK(at::isIntegralType(pivots.scalar_type(), /*includeBool=*/false),
              "torch.linalg.ldl_solve: Expected pivots to be integers. Got ", pivots.scalar_type());
  TORCH_CHECK(factors.scalar_type() == rhs.scalar_type(), "torch.linalg.ldl_solve: LD dtype ",
              factors.scalar_type(), " does not match b dtype ", rhs.scalar_type());
  const at::Tensor a = check_lapack_dtype(factors, kLdlSolve);
  const auto [b, ld] = at::native::_linalg_broadcast_batch_dims(rhs, a, nullptr);
  return Record(kLdlSolve)
      .tensor(ld)
      .tensor(pivots.to(at::kInt).expand(batch_with(ld, {columns_of(ld)})))
      .tensor(b.resolve_conj())
      .attribute(hermitian)
      .strided(b.scalar_type(), b.sizes(), column_major(b.sizes()));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("linalg_ldl_factor_ex", TORCH_FN(ldl_factor_ex));
  m.impl("linalg_ldl_solve", TORCH_FN(ldl_solve));
}

}  // namespace
}  // namespace torch_pjrt::aten
