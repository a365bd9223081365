#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/geqrf.h>
#include <ATen/ops/linalg_householder_product.h>
#include <torch/library.h>

#include "aten/host_function.h"
#include "aten/ops/linalg.h"

// QR factors by Householder reflections, which XLA expands on every device.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Dimensions;

void reflect_on_host(HostCall& call) {
  at::geqrf_out(call.results[0], call.results[1], call.arguments[0]);
}

// results: R above the diagonal with the reflections below it, and their factors
void emit_reflections(Emission& e) {
  static constexpr auto kOnHost =
      host_function<reflect_on_host, MatrixOrder::kByColumns>("torch_pjrt.geqrf");
  if (call_host(e, kOnHost, {e.operand(0)})) return;
  Builder& b = e.builder();
  const graph::Type packed = e.result_type(0), factors = e.result_type(1);
  if (packed.element_count() == 0) {
    e.result(0, e.operand(0));
    return e.result(1, b.zeros(factors));
  }
  const Operands both = b.custom_call("Qr", {e.operand(0)}, {packed, factors});
  e.result(0, both[0]);
  e.result(1, both[1]);
}

void multiply_on_host(HostCall& call) {
  at::Tensor& product = call.results[0];
  const int64_t missing = product.size(-1) - call.arguments[0].size(-1);
  at::linalg_householder_product_out(product, at::constant_pad_nd(call.arguments[0], {0, missing}),
                                     call.arguments[1]);
}

// The first columns, as many as the result has, of the product of the reflections.
// operands: reflections, at most as many columns as rows; factors
void emit_product(Emission& e) {
  static constexpr auto kOnHost =
      host_function<multiply_on_host, MatrixOrder::kByColumns>("torch_pjrt.householder_product");
  if (call_host(e, kOnHost, e.operands())) return;
  Builder& b = e.builder();
  const graph::Type& type = e.result_type();
  if (type.element_count() == 0) return e.result(b.zeros(type));
  Operand a = e.operand(0);
  const auto rank = static_cast<size_t>(a.rank());
  const int64_t missing = type.dimensions.back() - a.dimension(-1);
  Dimensions high(rank, 0);
  high.back() = missing;
  if (missing > 0) a = b.pad(a, 0, Dimensions(rank, 0), high);
  if (e.operand(1).dimension(-1) == 0) {
    const auto [row, column] = places(b, a);
    return e.result(b.convert(b.equal(row, column), type.element));
  }
  e.result(b.custom_call("ProductOfElementaryHouseholderReflectors", {a, e.operand(1)}, {type})[0]);
}

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair reflections(const at::Tensor& self) {
  static constexpr Operator op{"aten::geqrf", emit_reflections};
  const at::Tensor a = check_lapack_dtype(self, op);
  const auto both = Record(op).tensor(a).results(
      {{a.scalar_type(), a.sizes()}, {a.scalar_type(), batch_with(a, {short_side(a)})}});
  return {both[0], both[1]};
}

at::Tensor product(const at::Tensor& a, const at::Tensor& factors, int64_t columns) {
  static constexpr Operator op{"aten::linalg_householder_product", emit_product};
  const at::Tensor reflections = check_lapack_dtype(a, op);
  return Record(op)
      .tensor(reflections)
      .tensor(factors.resolve_conj())
      .result(a.scalar_type(), batch_with(a, {rows_of(a), columns}));
}

Pair geqrf(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  const auto [a, factors] = reflections(self);
  return {in_columns(a), factors};
}

Pair linalg_qr(const at::Tensor& self, std::string_view mode) {
  at::native::checkIsMatrix(self, "linalg.qr");
  at::native::checkFloatingOrComplex(self, "linalg.qr");
  const auto [with_q, reduced] = at::native::_parse_qr_mode(mode);
  const auto [a, factors] = reflections(self);
  const int64_t side = reduced ? short_side(a) : rows_of(a);
  const at::Tensor r = in_columns(a.narrow(-2, 0, side).triu());
  if (!with_q) return {at::empty({0}, self.options()), r};
  return {in_columns(product(a.narrow(-1, 0, short_side(a)), factors, side)), r};
}

void check_reflections(const char* name, const at::Tensor& a, const at::Tensor& factors) {
  TORCH_CHECK(a.dim() >= 2, name, ": input must have at least 2 dimensions.");
  TORCH_CHECK(columns_of(a) >= factors.size(-1), name,
              ": input.shape[-1] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(a.dim() - factors.dim() == 1, name,
              ": Expected tau to have one dimension less than input, but got tau.ndim equal to ",
              factors.dim(), " and input.ndim is equal to ", a.dim());
  TORCH_CHECK(batch_of(a) == factors.sizes().slice(0, static_cast<size_t>(factors.dim()) - 1), name,
              ": Expected batch dimensions of tau to be equal to input.shape[:-2], but got ",
              factors.sizes());
  TORCH_CHECK(factors.scalar_type() == a.scalar_type(), name, ": tau dtype ", factors.scalar_type(),
              " does not match input dtype ", a.scalar_type());
}

at::Tensor linalg_householder_product(const at::Tensor& a, const at::Tensor& factors) {
  constexpr const char* kName = "torch.linalg.householder_product";
  check_reflections(kName, a, factors);
  TORCH_CHECK(rows_of(a) >= columns_of(a), kName,
              ": input.shape[-2] must be greater than or equal to input.shape[-1]");
  return in_columns(product(a, factors, columns_of(a)));
}

at::Tensor ormqr(const at::Tensor& a, const at::Tensor& factors, const at::Tensor& other, bool left,
                 bool transpose) {
  constexpr const char* kName = "torch.ormqr";
  check_reflections(kName, a, factors);
  TORCH_CHECK(other.dim() >= 2, kName, ": other must have at least 2 dimensions.");
  const int64_t side = other.size(left ? -2 : -1);
  TORCH_CHECK(side >= factors.size(-1), kName, ": other.shape[", left ? -2 : -1,
              "] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(side == rows_of(a), kName, ": other.shape[", left ? -2 : -1,
              "] must be equal to input.shape[-2]");
  TORCH_CHECK(batch_of(a) == batch_of(other), kName,
              ": Expected batch dimensions of other to be equal to input.shape[:-2], but got ",
              other.sizes());
  TORCH_CHECK(other.scalar_type() == a.scalar_type(), kName, ": other dtype ", other.scalar_type(),
              " does not match input dtype ", a.scalar_type());
  at::Tensor q = product(a.narrow(-1, 0, factors.size(-1)), factors, rows_of(a));
  if (transpose) q = q.mH();
  // One operator of the cpu: what autocast says of products is not said of it.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return in_columns(left ? q.matmul(other) : other.matmul(q));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("geqrf", TORCH_FN(geqrf));
  m.impl("linalg_qr", TORCH_FN(linalg_qr));
  m.impl("linalg_householder_product", TORCH_FN(linalg_householder_product));
  m.impl("ormqr", TORCH_FN(ormqr));
}

}  // namespace
}  // namespace torch_pjrt::aten
