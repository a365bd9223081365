#include <ATen/ExpandUtils.h>
#include <ATen/ops/_cholesky_solve_helper.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/cholesky_inverse.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <torch/library.h>

#include <limits>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/host_function.h"
#include "aten/ops/linalg.h"
#include "aten/ops/matmul.h"
#include "aten/ops/triangular_blocks.h"

// Cholesky factors and triangular systems.
namespace torch_pjrt::aten {
namespace {

using graph::Dimensions;
using graph::ElementType;
using Form = TriangularSystem::Form;

// x where row >= column, else 0.
Operand lower_part(StableHloBuilder& b, Operand x) {
  const auto [row, column] = places(b, x);
  return b.select(b.greater_equal(row, column), x, 0);
}

// Some rows and columns of each matrix.
Operand part(StableHloBuilder& b, Operand x, int64_t row, int64_t rows, int64_t column,
             int64_t columns) {
  return b.slice_dim(b.slice_dim(x, -2, row, row + rows), -1, column, column + columns);
}

constexpr int64_t kLeaf = 32, kMostLeaves = 16;

// The lower factor column by column; what is above the diagonal is left undefined. From the first
// row on at which a matrix is not positive definite, the diagonal is NaN. XLA's own, no faster on
// the CPU, fills all with NaN, so that nobody knows the row.
Operand factor_by_columns(StableHloBuilder& b, Operand matrices) {
  const Operand all = as_batch(b, matrices);
  const int64_t batch = all.dimension(0), size = all.dimension(1);
  const auto condition = [&](StableHloBuilder& b, graph::OperandList state) {
    return Operands{b.less(state[0], size)};
  };
  const auto body = [&](StableHloBuilder& b, graph::OperandList state) {
    const Operand step = state[0], x = state[1], zero = b.scalar(ElementType::kS32, 0);
    const auto at_step = [&](Operand places) {
      return b.equal(places, b.broadcast_to(step, places.dimensions()));
    };
    const auto whole = [&](Operand part) { return b.broadcast_to(part, x.dimensions()); };
    const Operand column = b.dynamic_slice(x, {zero, zero, step}, {batch, size, 1});
    const Operand pivot = b.real(b.dynamic_slice(column, {zero, step, zero}, {batch, 1, 1}));
    const Operand root =
        b.select(b.greater(pivot, 0), b.sqrt(pivot), std::numeric_limits<double>::quiet_NaN());
    const Operand divisor = b.broadcast_to(b.convert(root, x.element()), column.dimensions());
    const Operand row = b.iota({ElementType::kS32, column.dimensions()}, 1);
    const Operand done = b.select(at_step(row), divisor, b.divide(column, divisor));
    const Operand reduced = b.subtract(x, b.multiply(whole(done), whole(adjoint(b, done))));
    const Operand place = places(b, x).second;
    const Operand rest = b.select(b.greater(place, whole(step)), reduced, x);
    return Operands{b.add(step, 1), b.select(at_step(place), whole(done), rest)};
  };
  const Operands init{b.scalar(ElementType::kS32, 0), all};
  return b.reshape(b.while_loop(init, condition, body)[1], matrices.dimensions());
}

// The same by halves. Measured: at 512 rows some 20 times as fast.
Operand factor_by_halves(StableHloBuilder& b, Operand x, int64_t leaf) {
  const int64_t size = x.dimension(-1);
  if (x.type().element_count() == 0) return x;
  if (size <= leaf) return factor_by_columns(b, x);
  const int64_t half = (size / 2 + leaf - 1) / leaf * leaf, rest = size - half;
  const Operand top = factor_by_halves(b, part(b, x, 0, half, 0, half), leaf);
  // XLA's own: by blocks a factorisation of 512 rows takes nearly twice as long.
  const Operand side = b.triangular_solve(top, part(b, x, half, rest, 0, half), /*left=*/false,
                                          /*lower=*/true, /*unit=*/false, Form::kAdjoint);
  graph::DotDimensions product;
  for (int64_t i = 0; i + 2 < x.rank(); ++i) {
    product.lhs_batching.push_back(i);
    product.rhs_batching.push_back(i);
  }
  product.lhs_contracting.push_back(x.rank() - 1);
  product.rhs_contracting.push_back(x.rank() - 1);
  const Operand square = wide_dot(b, side, b.conj(side), product);
  const Operand bottom =
      factor_by_halves(b, b.subtract(part(b, x, half, rest, half, rest), square), leaf);
  const Operand corner = part(b, x, 0, half, half, rest);
  return b.concatenate({b.concatenate({top, corner}, -1), b.concatenate({side, bottom}, -1)}, -2);
}

Operand factor(StableHloBuilder& b, Operand x, bool upper) {
  const int64_t size = x.dimension(-1);
  const int64_t leaf = std::max(kLeaf, (size + kMostLeaves - 1) / kMostLeaves);
  const Operand l = lower_part(b, factor_by_halves(b, upper ? adjoint(b, x) : x, leaf));
  return upper ? adjoint(b, l) : l;
}

void factor_on_host(HostCall& call) {
  at::linalg_cholesky_ex_out(call.results[0], call.results[1], call.arguments[0],
                             /*upper=*/call.options[0], /*check_errors=*/false);
}

// attributes: upper; results: the factor and, from 1, the row at which there is none, else 0
void emit_cholesky_ex(Emission& e) {
  static constexpr auto kOnHost =
      host_function<factor_on_host, MatrixOrder::kByColumns>("torch_pjrt.cholesky");
  StableHloBuilder& b = e.builder();
  const bool upper = e.attributes.boolean();
  if (call_host(e, kOnHost, {e.operand(0)}, {upper})) return;
  const Operand l = factor(b, e.operand(0), upper);
  e.result(0, l);
  const auto [row, column] = places(b, l);
  const Operand bad = b.bit_and(b.equal(row, column), b.is_nan(b.real(l)));
  const int64_t size = l.dimension(-1);
  const Operand first =
      b.reduce(b.select(bad, row, size), graph::Reducer::kMinimum, {l.rank() - 2, l.rank() - 1});
  // Beyond the size where all is well: of an empty matrix it is the greatest integer.
  e.result(1, b.select(b.greater_equal(first, size), 0, b.add(first, 1)));
}

void check_square(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.dim() >= 2, name, ": The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2), name,
              ": A must be batches of square matrices, but they are ", self.size(-2), " by ",
              self.size(-1), " matrices");
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), name,
              ": Expected a floating point or complex tensor as input. Got ", self.scalar_type());
  TORCH_CHECK(self.scalar_type() != at::kHalf && self.scalar_type() != at::kBFloat16, name,
              ": Low precision dtypes not supported. Got ", self.scalar_type());
}

std::tuple<at::Tensor, at::Tensor> cholesky_ex(const at::Tensor& self, bool upper,
                                               bool check_errors) {
  static constexpr Operator op{"aten::linalg_cholesky_ex", emit_cholesky_ex};
  check_square(self, "linalg.cholesky");
  const auto results =
      Record(op)
          .tensor(self.resolve_conj())
          .attribute(upper)
          .results({{self.scalar_type(), self.sizes()},
                    {at::kInt, self.sizes().slice(0, static_cast<size_t>(self.dim()) - 2)}});
  if (check_errors) at::_linalg_check_errors(results[1], "linalg.cholesky_ex", self.dim() == 2);
  return {in_columns(results[0]), results[1]};
}

at::Tensor cholesky(const at::Tensor& self, bool upper) {
  check_square(self, "cholesky");
  const auto [l, info] = cholesky_ex(self, upper, false);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  return l;
}

void solve_on_host(HostCall& call) {
  const bool left = call.options[0], upper = call.options[1];
  const bool unit = call.options[2], transposed = call.options[3];
  const at::Tensor& a = call.arguments[0];
  at::linalg_solve_triangular_out(call.results[0], transposed ? a.mT() : a, call.arguments[1],
                                  upper != transposed, left, unit);
}

// attributes: left, upper, unitriangular, transposed; a's and b's batches broadcast
void emit_solve(Emission& e) {
  static constexpr auto kOnHost =
      host_function<solve_on_host, MatrixOrder::kByColumns>("torch_pjrt.solve_triangular");
  StableHloBuilder& b = e.builder();
  const bool left = e.attributes.boolean(), upper = e.attributes.boolean();
  const bool unit = e.attributes.boolean(), transposed = e.attributes.boolean();
  Dimensions sizes = e.result_type(0).dimensions;
  const Operand rhs = b.broadcast_to(e.operand(1), sizes);
  sizes[sizes.size() - 1] = e.operand(0).dimension(-1);
  sizes[sizes.size() - 2] = e.operand(0).dimension(-2);
  const Operand a = b.broadcast_to(e.operand(0), sizes);
  if (call_host(e, kOnHost, {a, rhs}, {left, upper, unit, transposed})) return;
  const TriangularSystem system{left, !upper, unit,
                                transposed ? Form::kTranspose : Form::kNoTranspose};
  e.result(0, system.solve(b, a, rhs));
}

c10::DimVector solution_sizes(const at::Tensor& a, const at::Tensor& rhs) {
  const auto batch = [](const at::Tensor& t) {
    return t.sizes().slice(0, static_cast<size_t>(t.dim()) - 2);
  };
  c10::DimVector sizes = at::infer_size_dimvector(batch(a), batch(rhs));
  sizes.push_back(rhs.size(-2));
  sizes.push_back(rhs.size(-1));
  return sizes;
}

at::Tensor solve(const Operator& op, const at::Tensor& a, const at::Tensor& rhs, bool left,
                 bool upper, bool unitriangular, bool transposed) {
  TORCH_CHECK(rhs.dim() >= 2 && a.scalar_type() == rhs.scalar_type() &&
                  a.size(-1) == rhs.size(left ? -2 : -1),
              op.name, ": Incompatible shapes or dtypes; got ", a.sizes(), " ", a.scalar_type(),
              " and ", rhs.sizes(), " ", rhs.scalar_type(),
              ", expected one dtype and a side of the second that fits the first");
  Record record(op);
  record.tensor(a.resolve_conj()).tensor(rhs.resolve_conj());
  record.attribute(left).attribute(upper).attribute(unitriangular).attribute(transposed);
  const c10::DimVector sizes = solution_sizes(a, rhs);
  return record.strided(rhs.scalar_type(), sizes, column_major(sizes));
}

at::Tensor linalg_solve_triangular(const at::Tensor& a, const at::Tensor& rhs, bool upper,
                                   bool left, bool unitriangular) {
  static constexpr Operator op{"aten::linalg_solve_triangular", emit_solve};
  check_square(a, "linalg.solve_triangular");
  return solve(op, a, rhs, left, upper, unitriangular, false);
}

std::tuple<at::Tensor, at::Tensor> triangular_solve(const at::Tensor& rhs, const at::Tensor& a,
                                                    bool upper, bool transpose,
                                                    bool unitriangular) {
  static constexpr Operator op{"aten::triangular_solve", emit_solve};
  check_square(a, "triangular_solve");
  const at::Tensor x = solve(op, a, rhs, true, upper, unitriangular, transpose);
  c10::DimVector sizes(x.sizes());
  sizes[sizes.size() - 1] = a.size(-1);
  return {x, in_columns(a.expand(sizes))};
}

// x with l l^H x = rhs, or u^H u x = rhs.
Operand solve_with_factor(StableHloBuilder& b, Operand factor, bool upper, Operand rhs) {
  const Operand l = upper ? adjoint(b, factor) : factor;
  const Operand y = TriangularSystem{}.solve(b, l, rhs);
  return TriangularSystem{.form = Form::kAdjoint}.solve(b, l, y);
}

void solve_with_factor_on_host(HostCall& call) {
  call.results[0].copy_(
      at::_cholesky_solve_helper(call.arguments[0], call.arguments[1], /*upper=*/call.options[0]));
}

// attributes: upper; operands: right side, factor
void emit_cholesky_solve(Emission& e) {
  static constexpr auto kOnHost = host_function<solve_with_factor_on_host, MatrixOrder::kByColumns>(
      "torch_pjrt.cholesky_solve");
  const bool upper = e.attributes.boolean();
  if (call_host(e, kOnHost, {e.operand(0), e.operand(1)}, {upper})) return;
  e.result(solve_with_factor(e.builder(), e.operand(1), upper, e.operand(0)));
}

at::Tensor cholesky_solve_helper(const at::Tensor& self, const at::Tensor& a, bool upper) {
  static constexpr Operator op{"aten::_cholesky_solve_helper", emit_cholesky_solve};
  return Record(op)
      .tensor(self.resolve_conj())
      .tensor(a.resolve_conj())
      .attribute(upper)
      .strided(self.scalar_type(), self.sizes(), column_major(self.sizes()));
}

void invert_factor_on_host(HostCall& call) {
  try {
    call.results[0].copy_(at::cholesky_inverse(call.arguments[0], /*upper=*/call.options[0]));
  } catch (const c10::LinAlgError&) {  // said by kSingularFactor
    call.results[0].fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

// attribute: upper
void emit_cholesky_inverse(Emission& e) {
  static constexpr auto kOnHost =
      host_function<invert_factor_on_host, MatrixOrder::kByColumns>("torch_pjrt.cholesky_inverse");
  StableHloBuilder& b = e.builder();
  const bool upper = e.attributes.boolean();
  if (call_host(e, kOnHost, {e.operand(0)}, {upper})) return;
  const auto [row, column] = places(b, e.operand(0));
  const Operand identity = b.convert(b.equal(row, column), e.result_type().element);
  e.result(solve_with_factor(b, e.operand(0), upper, identity));
}

// The whole message; whether a diagonal element is zero.
constexpr Operator kSingularFactor{
    "cholesky_inverse: A diagonal element is zero, the inversion could not be completed because "
    "the input matrix is singular",
    [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand x = e.operand(0);
      const auto [row, column] = places(b, x);
      e.result(any(b, b.bit_and(b.equal(row, column), b.equal(x, 0))));
    }};

at::Tensor cholesky_inverse(const at::Tensor& self, bool upper) {
  static constexpr Operator op{"aten::cholesky_inverse", emit_cholesky_inverse};
  check_square(self, "cholesky_inverse");
  const at::Tensor a = self.resolve_conj();
  check_never(kSingularFactor, a);
  return Record(op).tensor(a).attribute(upper).strided(self.scalar_type(), self.sizes(),
                                                       column_major(self.sizes()));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("cholesky", TORCH_FN(cholesky));
  m.impl("linalg_cholesky_ex", TORCH_FN(cholesky_ex));
  m.impl("linalg_solve_triangular", TORCH_FN(linalg_solve_triangular));
  m.impl("triangular_solve", TORCH_FN(triangular_solve));
  m.impl("_cholesky_solve_helper", TORCH_FN(cholesky_solve_helper));
  m.impl("cholesky_inverse", TORCH_FN(cholesky_inverse));
}

}  // namespace
}  // namespace torch_pjrt::aten
