#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_linalg_eigh.h>
#include <ATen/ops/_linalg_eigvals.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_eig.h>
#include <torch/library.h>

#include <cmath>

#include "aten/checks.h"
#include "aten/cpu_fallback.h"
#include "aten/host_function.h"
#include "aten/ops/linalg.h"

// Eigenvalues and singular values: PyTorch's own, called by the program where the device works on
// host memory; on others they run on the cpu, as StableHLO has none.
namespace torch_pjrt::aten {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Runs `compute`, which throws where LAPACK does not converge or refuses its input. All results are
// NaN then, and the last one is true.
template <typename Compute>
void compute_or_fail(HostCall& call, Compute compute) {
  at::Tensor& failed = call.results.back();
  failed.zero_();
  try {
    compute();
  } catch (const c10::Error&) {
    for (at::Tensor& result : call.results) result.fill_(NAN);
    failed.fill_(true);
  }
}

// The whole message of the check.
template <size_t size>
constexpr Operator failure(const char (&message)[size]) {
  return {std::string_view(message, size - 1), [](Emission& e) { e.result(e.operand(0)); }};
}

c10::ScalarType complex_of(const at::Tensor& a) { return c10::toComplexType(a.scalar_type()); }

// ---- of Hermitian matrices ----

// options: whether the upper half is read, whether vectors are asked for
void solve_hermitian(HostCall& call) {
  const char* half = call.options[0] ? "U" : "L";
  const bool vectors = call.options[1];
  compute_or_fail(call, [&] {
    at::Tensor none = at::empty({0}, call.arguments[0].options());
    at::_linalg_eigh_out(call.results[0], vectors ? call.results[1] : none, call.arguments[0], half,
                         vectors);
  });
}

// attributes: as the options
constexpr Operator kHermitian{
    "aten::_linalg_eigh", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<solve_hermitian, MatrixOrder::kByColumns>("torch_pjrt.eigh");
      const bool upper = e.attributes.boolean(), vectors = e.attributes.boolean();
      must_call_host(e, kOnHost, {e.operand(0)}, {upper, vectors});
    }};

Pair linalg_eigh(const at::Tensor& self, std::string_view half, bool vectors) {
  static constexpr Operator kFailed = failure(
      "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned, "
      "has too many repeated eigenvalues or is not finite");
  if (!calls_host_functions(self)) {
    return at::native::call_fallback_fn<&run_on_cpu, at::_ops::_linalg_eigh>::call(self, half,
                                                                                   vectors);
  }
  at::native::squareCheckInputs(self, "linalg.eigh");
  at::native::checkUplo(half);
  const at::Tensor a = check_lapack_dtype(self, kHermitian);
  const bool upper = half == "U" || half == "u";
  std::vector<Result> types{{c10::toRealValueType(a.scalar_type()), batch_with(a, {rows_of(a)})}};
  if (vectors) types.emplace_back(a.scalar_type(), a.sizes());
  types.emplace_back(at::kBool, at::IntArrayRef());
  const auto results =
      Record(kHermitian).tensor(a).attribute(upper).attribute(vectors).results(types);
  check_never(kFailed, results.back());
  return {results[0], vectors ? in_columns(results[1]) : at::empty({0}, self.options())};
}

// ---- of any square matrix ----

void solve_square(HostCall& call) {
  compute_or_fail(call,
                  [&] { at::linalg_eig_out(call.results[0], call.results[1], call.arguments[0]); });
}

constexpr Operator kSquare{
    "aten::linalg_eig", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<solve_square, MatrixOrder::kByColumns>("torch_pjrt.eig");
      must_call_host(e, kOnHost, {e.operand(0)});
    }};

constexpr Operator kSquareFailed = failure(
    "linalg.eig: The algorithm failed to converge because the input matrix is ill-conditioned, has "
    "too many repeated eigenvalues or is not finite");

Pair linalg_eig(const at::Tensor& self) {
  if (!calls_host_functions(self)) {
    return at::native::call_fallback_fn<&run_on_cpu, at::_ops::linalg_eig>::call(self);
  }
  at::native::squareCheckInputs(self, "linalg.eig");
  const at::Tensor a = check_lapack_dtype(self, kSquare);
  const auto results = Record(kSquare).tensor(a).results(
      {{complex_of(a), batch_with(a, {rows_of(a)})}, {complex_of(a), a.sizes()}, {at::kBool, {}}});
  check_never(kSquareFailed, results[2]);
  return {results[0], in_columns(results[1])};
}

void find_eigenvalues(HostCall& call) {
  compute_or_fail(call, [&] {
    const at::Tensor& a = call.arguments[0];
    TORCH_CHECK(a.isfinite().all().item<bool>());  // PyTorch 2.13 crashes where one is not
    call.results[0].copy_(at::_linalg_eigvals(a));
  });
}

constexpr Operator kEigenvalues{
    "aten::_linalg_eigvals", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<find_eigenvalues, MatrixOrder::kByColumns>("torch_pjrt.eigvals");
      must_call_host(e, kOnHost, {e.operand(0)});
    }};

at::Tensor linalg_eigvals(const at::Tensor& self) {
  if (!calls_host_functions(self)) {
    return at::native::call_fallback_fn<&run_on_cpu, at::_ops::_linalg_eigvals>::call(self);
  }
  at::native::squareCheckInputs(self, "linalg.eigvals");
  const at::Tensor a = check_lapack_dtype(self, kEigenvalues);
  const auto results =
      Record(kEigenvalues)
          .tensor(a)
          .results({{complex_of(a), batch_with(a, {rows_of(a)})}, {at::kBool, {}}});
  check_never(kSquareFailed, results[1]);
  return results[0];
}

// ---- singular values ----

// options: whether all vectors are asked for, whether any are
void decompose(HostCall& call) {
  const bool full = call.options[0], vectors = call.options[1];
  compute_or_fail(call, [&] {
    at::Tensor none = at::empty({0}, call.arguments[0].options()), nothing = none.clone();
    at::_linalg_svd_out(vectors ? call.results[1] : none, call.results[0],
                        vectors ? call.results[2] : nothing, call.arguments[0], full, vectors);
  });
}

// attributes: as the options; results: singular values, left and right vectors, whether it failed
constexpr Operator kSingular{
    "aten::_linalg_svd", [](Emission& e) {
      static constexpr auto kOnHost =
          host_function<decompose, MatrixOrder::kByColumns>("torch_pjrt.svd");
      const bool full = e.attributes.boolean(), vectors = e.attributes.boolean();
      must_call_host(e, kOnHost, {e.operand(0)}, {full, vectors});
    }};

Triple linalg_svd(const at::Tensor& self, bool full, bool vectors,
                  std::optional<std::string_view> driver) {
  static constexpr Operator kFailed = failure(
      "linalg.svd: The algorithm failed to converge because the input matrix is "
      "ill-conditioned, has too many repeated singular values or is not finite");
  if (!calls_host_functions(self)) {
    return at::native::call_fallback_fn<&run_on_cpu, at::_ops::_linalg_svd>::call(self, full,
                                                                                  vectors, driver);
  }
  at::native::checkIsMatrix(self, "linalg.svd");
  at::native::checkFloatingOrComplex(self, "linalg.svd");
  TORCH_CHECK(!driver.has_value(),
              "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
              "cuSOLVER backend.");
  const at::Tensor a = check_lapack_dtype(self, kSingular);
  const int64_t m = rows_of(a), n = columns_of(a), k = short_side(a);
  std::vector<Result> types{{c10::toRealValueType(a.scalar_type()), batch_with(a, {k})}};
  if (vectors) {
    types.emplace_back(a.scalar_type(), batch_with(a, {m, full ? m : k}));
    types.emplace_back(a.scalar_type(), batch_with(a, {full ? n : k, n}));
  }
  types.emplace_back(at::kBool, at::IntArrayRef());
  const auto results =
      Record(kSingular).tensor(a).attribute(full).attribute(vectors).results(types);
  check_never(kFailed, results.back());
  if (!vectors) {
    return {at::empty({0}, self.options()), results[0], at::empty({0}, self.options())};
  }
  return {in_columns(results[1]), results[0], in_columns(results[2])};
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_linalg_eigh", TORCH_FN(linalg_eigh));
  m.impl("linalg_eig", TORCH_FN(linalg_eig));
  m.impl("_linalg_eigvals", TORCH_FN(linalg_eigvals));
  m.impl("_linalg_svd", TORCH_FN(linalg_svd));
}

}  // namespace
}  // namespace torch_pjrt::aten
