#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <torch/library.h>

#include "aten/ops/lu.h"

#include <algorithm>

#include "aten/host_function.h"
#include "aten/ops/linalg.h"

// LU factors with partial pivoting. StableHLO has none: a loop goes from panel to panel, in which
// another eliminates columns; what lies right of a panel is updated by one product. Over whole
// matrices, as a program with every panel written out took ten times as long to compile and more.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::ElementType;
using graph::OperandList;
using graph::Reducer;
using graph::Type;

// Of a matrix with more columns than that.
constexpr int64_t kPanelWidth = 32, kWidePanel = 64, kManyColumns = 1024;

// The rows' order after elimination, and the row that each step swapped with its own; all from 0.
struct Eliminated {
  Operand matrix, order, pivots;
};

// As LAPACK compares: the magnitude, or of complex |re| + |im|.
Operand size_of(Builder& b, Operand x) {
  if (!pjrt::is_complex(x.element())) return b.abs(x);
  return b.add(b.abs(b.real(x)), b.abs(b.imag(x)));
}

// Eliminates columns [0, count) of a, [batch, rows, width], by rows from `start` on; writes the
// pivots from `start` on into `pivots`, [batch, all steps].
Eliminated eliminate(Builder& b, Operand a, Operand start, Operand count, Operand pivots) {
  const int64_t batch = a.dimension(0), rows = a.dimension(1), width = a.dimension(2);
  const Type row_type{ElementType::kS32, {batch, rows}};
  const Type place_type{ElementType::kS32, a.dimensions()};
  const Type pivot_type = pivots.type();
  const auto condition = [&](Builder& b, OperandList state) {
    return Operands{b.less(state[0], count)};
  };
  const auto body = [&](Builder& b, OperandList state) {
    const Operand step = state[0], own = b.add(step, start);
    Operand a = state[1], order = state[2];
    const Operand zero = b.scalar(ElementType::kS32, 0);
    const auto column = [&](Operand x) {
      return b.dynamic_slice(x, {zero, zero, step}, {batch, rows, 1});
    };
    const auto whole = [&](Operand x) { return b.broadcast_to(x, place_type.dimensions); };
    const auto flat = [&](Operand x) { return b.broadcast_to(x, row_type.dimensions); };
    const auto spread = [&](Operand mask) {
      return b.broadcast_in_dim(mask, place_type.dimensions, {0, 1});
    };

    const Operand row = b.iota(row_type, 1);
    const Operand sizes = size_of(b, b.reshape(column(a), {batch, rows}));
    const Operand candidates = b.select(b.less(row, flat(own)), -1, sizes);
    const Operand pivot = b.argmax(candidates, 1, ElementType::kS32, true).second;

    const Operand pivot_row =
        b.gather_elements(a, b.broadcast_in_dim(pivot, {batch, 1, width}, {0, 1}), 1);
    const Operand own_row = b.dynamic_slice(a, {zero, own, zero}, {batch, 1, width});
    const Operand is_own = b.equal(row, flat(own)), is_pivot = b.equal(row, flat(pivot));
    const Operand top = whole(pivot_row);
    a = b.select(spread(is_own), top, b.select(spread(is_pivot), whole(own_row), a));
    const Operand own_place = b.dynamic_slice(order, {zero, own}, {batch, 1});
    const Operand pivot_place = b.gather_elements(order, pivot, 1);
    order = b.select(is_own, flat(pivot_place), b.select(is_pivot, flat(own_place), order));

    const Operand divisor = b.dynamic_slice(pivot_row, {zero, zero, step}, {batch, 1, 1});
    const Operand singular = b.equal(divisor, 0);
    const Operand factors =
        b.divide(column(a), b.broadcast_to(b.select(singular, 1, divisor), {batch, rows, 1}));
    const Operand below = b.greater(b.iota(place_type, 1), whole(own));
    const Operand place = b.iota(place_type, 2);
    const Operand reduced = b.subtract(a, b.multiply(whole(factors), top));
    const Operand changed = b.select(b.greater(place, whole(step)), reduced,
                                     b.select(b.equal(place, whole(step)), whole(factors), a));
    a = b.select(below, changed, a);

    const auto steps = [&](Operand x) { return b.broadcast_to(x, pivot_type.dimensions); };
    const Operand is_step = b.equal(b.iota(pivot_type, 1), steps(own));
    return Operands{b.add(step, 1), a, order, b.select(is_step, steps(pivot), state[3])};
  };
  const Operands init{b.scalar(ElementType::kS32, 0), a, b.iota(row_type, 1), pivots};
  const Operands end = b.while_loop(init, condition, body);
  return {end[1], end[2], end[3]};
}

// a: [batch, m, n]; {factors, pivots from 0}
std::pair<Operand, Operand> factor(Builder& b, Operand a) {
  const int64_t batch = a.dimension(0), m = a.dimension(1), n = a.dimension(2);
  const int64_t k = std::min(m, n);
  const Operand zero = b.scalar(ElementType::kS32, 0);
  const Operand no_pivots = b.zeros({ElementType::kS32, {batch, k}});
  if (k <= kPanelWidth) {
    const Eliminated all = eliminate(b, a, zero, b.scalar(ElementType::kS32, k), no_pivots);
    return {all.matrix, all.pivots};
  }
  const int64_t width = k > kManyColumns ? kWidePanel : kPanelWidth;
  // Zeros below and to the right, which are never pivots, complete the last panel.
  const int64_t whole = (k + width - 1) / width * width;
  const int64_t rows = std::max(m, whole), columns = std::max(n, whole);
  a = b.pad(a, 0, {0, 0, 0}, {0, rows - m, columns - n});
  const Type place_type{ElementType::kS32, a.dimensions()};
  const auto condition = [&](Builder& b, OperandList state) {
    return Operands{b.less(state[0], k)};
  };
  const auto body = [&](Builder& b, OperandList state) {
    const Operand start = state[0], end = b.add(start, width);
    const Operand zero = b.scalar(ElementType::kS32, 0);
    const auto at_end = [&](Operand places) {
      return b.greater_equal(places, b.broadcast_to(end, places.dimensions()));
    };
    const Operand count = b.minimum(b.subtract(k, start), width);
    const Eliminated panel =
        eliminate(b, b.dynamic_slice(state[1], {zero, zero, start}, {batch, rows, width}), start,
                  count, state[2]);
    Operand a = rows_in_order(b, state[1], panel.order);
    a = b.dynamic_update_slice(a, panel.matrix, {zero, zero, start});

    const Operand top = b.dynamic_slice(a, {zero, start, zero}, {batch, width, columns});
    const Operand corner =
        b.dynamic_slice(panel.matrix, {zero, start, zero}, {batch, width, width});
    const Operand solved = b.triangular_solve(corner, top, true, true, true);
    const Operand is_right = at_end(b.iota({ElementType::kS32, top.dimensions()}, 2));
    a = b.dynamic_update_slice(a, b.select(is_right, solved, top), {zero, start, zero});

    const Operand rest = b.subtract(a, b.matmul(panel.matrix, solved));
    const Operand changes = b.bit_and(at_end(b.iota(place_type, 1)), at_end(b.iota(place_type, 2)));
    return Operands{end, b.select(changes, rest, a), panel.pivots};
  };
  const Operands done = b.while_loop({zero, a, no_pivots}, condition, body);
  return {b.slice(done[1], {0, 0, 0}, {batch, m, n}), done[2]};
}

void factor_on_host(HostCall& call) {
  at::linalg_lu_factor_ex_out(call.results[0], call.results[1], call.results[2], call.arguments[0],
                              /*pivot=*/true, /*check_errors=*/false);
}

// results: factors, pivots counted from 1, and the first zero on the diagonal, counted from 1
void emit_factors(Emission& e) {
  static constexpr auto kOnHost =
      host_function<factor_on_host, MatrixOrder::kByColumns>("torch_pjrt.lu_factor");
  Builder& b = e.builder();
  const Operand x = e.operand(0);
  if (call_host(e, kOnHost, {x})) return;
  if (e.result_type(1).element_count() == 0) {
    e.result(0, x);
    e.result(1, b.zeros(e.result_type(1)));
    e.result(2, b.zeros(e.result_type(2)));
    return;
  }
  const auto [a, pivots] = factor(b, as_batch(b, x));
  e.result(0, b.reshape(a, e.result_type(0).dimensions));
  e.result(1, b.reshape(b.add(pivots, 1), e.result_type(1).dimensions));
  const auto [row, column] = places(b, a);
  const Operand zero = b.bit_and(b.equal(row, column), b.equal(a, 0));
  const Operand first = b.reduce(b.select(zero, row, INT32_MAX - 1), Reducer::kMinimum, {1, 2});
  const Operand info = b.select(b.equal(first, INT32_MAX - 1), 0, b.add(first, 1));
  e.result(2, b.reshape(info, e.result_type(2).dimensions));
}

using Factors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Factors lu_factor_ex(const at::Tensor& self, bool pivot, bool check_errors) {
  static constexpr Operator op{"aten::linalg_lu_factor_ex", emit_factors};
  TORCH_CHECK(self.dim() >= 2,
              "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: ",
              self.sizes(), " instead");
  TORCH_CHECK(pivot || self.numel() == 0,
              "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  const at::Tensor a = check_lapack_dtype(self, op);
  const auto results = Record(op).tensor(a).results({{a.scalar_type(), a.sizes()},
                                                     {at::kInt, batch_with(a, {short_side(a)})},
                                                     {at::kInt, batch_of(a)}});
  if (check_errors) at::_linalg_check_errors(results[2], "torch.linalg.lu_factor_ex", a.dim() == 2);
  return {in_columns(results[0]), results[1], results[2]};
}

// operand: pivots, counted from 1; result: the matrix of the permutation
void emit_permutation(Emission& e) {
  Builder& b = e.builder();
  const Type& type = e.result_type();
  if (type.element_count() == 0) return e.result(b.zeros(type));
  const Operand given = e.operand(0);
  const int64_t rows = type.dimensions.back(), batch = type.element_count() / (rows * rows);
  const Operand pivots = b.subtract(b.reshape(given, {batch, given.dimension(-1)}), 1);
  const Operand order = swapped_order(b, pivots, rows, false);
  const Type place_type{ElementType::kS32, {batch, rows, rows}};
  const Operand at = b.broadcast_in_dim(order, place_type.dimensions, {0, 2});
  const Operand one = b.convert(b.equal(b.iota(place_type, 1), at), type.element);
  e.result(b.reshape(one, type.dimensions));
}

Factors lu_unpack(const at::Tensor& lu, const at::Tensor& pivots, bool unpack_data,
                  bool unpack_pivots) {
  static constexpr Operator op{"aten::lu_unpack", emit_permutation};
  TORCH_CHECK(lu.dim() >= 2,
              "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: ", lu.sizes(),
              " instead");
  TORCH_CHECK(!unpack_pivots || pivots.scalar_type() == at::kInt,
              "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
              "dtype.\nNote: this function is intended to be used with the output produced by "
              "torch.linalg.lu_factor");
  const int64_t m = rows_of(lu), k = short_side(lu);
  at::Tensor p = at::empty({0}, lu.options()), l = p.clone(), u = p.clone();
  if (unpack_pivots) {
    p = Record(op).tensor(pivots).result(lu.scalar_type(), batch_with(lu, {m, m}));
  }
  if (unpack_data) {
    l = lu.narrow(-1, 0, k).tril(-1);
    l.diagonal(0, -2, -1).fill_(1);
    u = lu.narrow(-2, 0, k).triu();
  }
  return {p, l, u};
}

Factors linalg_lu(const at::Tensor& self, bool pivot) {
  TORCH_CHECK(self.dim() >= 2,
              "linalg.lu: Expected tensor with 2 or more dimensions. Got size: ", self.sizes(),
              " instead");
  const auto [lu, pivots, info] = lu_factor_ex(self, pivot, false);
  return lu_unpack(lu, pivots, true, pivot);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("linalg_lu_factor_ex", TORCH_FN(lu_factor_ex));
  m.impl("lu_unpack", TORCH_FN(lu_unpack));
  m.impl("linalg_lu", TORCH_FN(linalg_lu));
}

}  // namespace

Operand swapped_order(Builder& b, Operand pivots, int64_t rows, bool last_to_first) {
  const int64_t batch = pivots.dimension(0), steps = pivots.dimension(1);
  const Type type{ElementType::kS32, {batch, rows}};
  if (steps == 0) return b.iota(type, 1);
  const auto condition = [&](Builder& b, OperandList state) {
    return Operands{b.less(state[0], steps)};
  };
  const auto body = [&](Builder& b, OperandList state) {
    const Operand step = last_to_first ? b.subtract(steps - 1, state[0]) : state[0];
    const Operand order = state[1], zero = b.scalar(ElementType::kS32, 0);
    const auto whole = [&](Operand x) { return b.broadcast_to(x, type.dimensions); };
    const Operand pivot = b.dynamic_slice(pivots, {zero, step}, {batch, 1});
    const Operand own = b.dynamic_slice(order, {zero, step}, {batch, 1});
    const Operand other = b.gather_elements(order, pivot, 1);
    const Operand row = b.iota(type, 1);
    const Operand is_own = b.equal(row, whole(step)), is_pivot = b.equal(row, whole(pivot));
    return Operands{b.add(state[0], 1),
                    b.select(is_own, whole(other), b.select(is_pivot, whole(own), order))};
  };
  return b.while_loop({b.scalar(ElementType::kS32, 0), b.iota(type, 1)}, condition, body)[1];
}

Operand rows_in_order(Builder& b, Operand x, Operand order) {
  return b.gather_elements(x, b.broadcast_in_dim(order, x.dimensions(), {0, 1}), 1);
}

}  // namespace torch_pjrt::aten
