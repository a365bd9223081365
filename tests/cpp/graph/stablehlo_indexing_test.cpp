#include <algorithm>
#include <numeric>

#include "graph/program_test_support.h"

namespace torch_pjrt::graph {
namespace {

class StableHloIndexing : public OnEachPlugin {};
ON_EACH_PLUGIN(StableHloIndexing);

TEST_P(StableHloIndexing, Takes) {
  TestedProgram p;
  const Operand x = p.input({kF32, {3, 4}}, counting(12));
  const Operand rows = p.vector(kS64, {2, 0, 2}), columns = p.input({kS32, {2, 2}}, {3, 0, 1, 1});
  p.expect_type(p.b.take(x, rows, 0), kF32, {3, 4});
  p.expect(p.b.take(x, rows, 0), {8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11}, "rows");
  p.expect_type(p.b.take(x, columns, 1), kF32, {3, 2, 2});
  p.expect(p.b.take(x, columns, -1), {3, 0, 1, 1, 7, 4, 5, 5, 11, 8, 9, 9}, "columns");
  p.expect(p.b.take(x, p.b.scalar(kS64, 1), 0), {4, 5, 6, 7}, "one row");
  p.expect(p.b.wrap_indices(p.vector(kS64, {-1, 0, -3}), 3), {2, 0, 0}, "wrapped");
  const Operand none = p.b.zeros({kS64, {0}});
  p.expect_type(p.b.take(x, none, 0), kF32, {0, 4});
  // Points (row, column), with the general form.
  GatherDimensions points;
  points.collapsed_slice = {0, 1};
  points.start_index_map = {0, 1};
  points.index_vector = 1;
  p.expect(p.b.gather(x, p.input({kS32, {2, 2}}, {1, 3, 2, 0}), points, {1, 1}), {7, 8}, "points");
  p.run(client());
}

TEST_P(StableHloIndexing, GatherElements) {
  TestedProgram p;
  const Operand x = p.input({kF32, {3, 4}}, counting(12));
  p.expect(p.b.gather_elements(x, p.input({kS64, {3, 2}}, {0, 3, 1, 1, 2, 0}), 1),
           {0, 3, 5, 5, 10, 8}, "along 1");
  p.expect(p.b.gather_elements(x, p.input({kS32, {2, 3}}, {0, 1, 2, 2, 0, 0}), 0),
           {0, 5, 10, 8, 1, 2}, "along 0, smaller index");
  p.expect(p.b.gather_elements(p.vector(kS32, {5, 6, 7}), p.vector(kS64, {2, 2, 0, 1}), 0),
           {7, 7, 5, 6}, "rank 1");
  p.expect(p.b.gather_elements(p.b.scalar(kF32, 4), p.b.scalar(kS64, 0), 0), {4}, "rank 0");
  const Operand cube = p.input({kF32, {2, 2, 3}}, counting(12));
  p.expect(p.b.gather_elements(cube, p.input({kS64, {2, 1, 3}}, {0, 1, 0, 1, 1, 0}), 1),
           {0, 4, 2, 9, 10, 8}, "middle dimension");
  p.run(client());
}

TEST_P(StableHloIndexing, ScatterElements) {
  TestedProgram p;
  const Operand x = p.input({kF32, {2, 3}}, {1, 2, 3, 4, 5, 6});
  const Operand index = p.input({kS64, {2, 2}}, {0, 2, 1, 1});
  const Operand updates = p.input({kF32, {2, 2}}, {10, 20, 30, 40});
  p.expect(p.b.scatter_elements(x, index, updates, 1, Reducer::kAdd), {11, 2, 23, 4, 75, 6}, "add");
  p.expect(p.b.scatter_elements(x, index, updates, 1, Reducer::kMultiply), {10, 2, 60, 4, 6000, 6},
           "multiply");
  p.expect(p.b.scatter_elements(x, index, updates, 1, Reducer::kMaximum), {10, 2, 20, 4, 40, 6},
           "maximum");
  p.expect(p.b.scatter_elements(x, index, updates, 1, Reducer::kMinimum), {1, 2, 3, 4, 5, 6},
           "minimum");
  p.expect(p.b.scatter_elements(x, p.input({kS64, {1, 3}}, {1, 0, 1}),
                                p.input({kF32, {1, 3}}, {7, 8, 9}), 0, Reducer::kOverwrite),
           {1, 8, 3, 7, 5, 9}, "overwrite along 0");
  p.expect(p.b.scatter_elements(x, p.input({kS64, {1, 1}}, {2}), p.input({kF32, {1, 1}}, {7}), 1,
                                Reducer::kOverwrite),
           {1, 2, 7, 4, 5, 6}, "smaller index");
  p.expect(p.b.scatter_elements(p.b.scalar(kS32, 4), p.b.scalar(kS64, 0), p.b.scalar(kS32, 9), 0,
                                Reducer::kAdd),
           {13}, "rank 0");
  p.run(client());
}

TEST_P(StableHloIndexing, ScatterSlices) {
  TestedProgram p;
  const Operand x = p.b.zeros({kF32, {3, 2}});
  const Operand updates = p.input({kF32, {4, 2}}, counting(8, 1));
  const Operand rows = p.vector(kS64, {2, 0, 2, 7});
  p.expect(p.b.scatter_slices(x, rows, updates, 0, Reducer::kAdd), {3, 4, 0, 0, 6, 8},
           "add, one index out of range");
  p.expect(p.b.scatter_slices(x, p.vector(kS32, {1}), p.input({kF32, {3, 1}}, {7, 8, 9}), 1,
                              Reducer::kOverwrite, {true, true}),
           {0, 7, 0, 8, 0, 9}, "overwrite a column");
  // The same sums by a scatter over two index dimensions.
  ScatterDimensions points;
  points.inserted_window = {0, 1};
  points.scatter_dims_to_operand = {0, 1};
  points.index_vector = 1;
  p.expect(p.b.scatter(x, p.input({kS32, {2, 2}}, {0, 1, 2, 0}), p.vector(kF32, {5, 6}), points,
                       Reducer::kAdd),
           {0, 5, 0, 0, 6, 0}, "points");
  p.run(client());
}

TEST_P(StableHloIndexing, Sorts) {
  TestedProgram p;
  const Operand x = p.input({kF32, {2, 4}}, {3, kNan, -kInf, 3, 0, 2, 1, 2});
  const auto [up, up_index] = p.b.sort_with_indices(x, 1, false);
  p.expect_type(up_index, kS64, {2, 4});
  p.expect(up, {-kInf, 3, 3, kNan, 0, 1, 2, 2}, "ascending");
  p.expect(up_index, {2, 0, 3, 1, 0, 2, 1, 3}, "ascending indices");
  const auto [down, down_index] = p.b.sort_with_indices(x, 1, true, kS32);
  p.expect(down, {kNan, 3, 3, -kInf, 2, 2, 1, 0}, "descending");
  p.expect(down_index, {1, 0, 3, 2, 1, 3, 2, 0}, "descending indices");
  const auto [columns, column_index] =
      p.b.sort_with_indices(p.input({kS32, {2, 2}}, {5, 1, 4, 9}), 0, false);
  p.expect(columns, {4, 1, 5, 9}, "along 0");
  p.expect(column_index, {1, 0, 0, 1}, "along 0, indices");
  for (const ElementType element : {kF64, kF32, kBF16, kS8, kU8, kS64, kPred}) {
    const bool is_signed = element != kU8 && element != kPred;
    const double low = is_signed ? -1 : 0;
    const Operand y = p.vector(element, {1, low, 0, 1, low, 0});
    const std::string name(pjrt::name(element));
    const auto [sorted, places] = p.b.sort_with_indices(y, 0, false);
    p.expect(sorted, {low, low, 0, 0, 1, 1}, name);
    p.expect(
        places,
        is_signed ? std::vector<double>{1, 4, 2, 5, 0, 3} : std::vector<double>{1, 2, 4, 5, 0, 3},
        name + " indices");
    const auto [falling, falling_places] = p.b.sort_with_indices(y, 0, true);
    p.expect(falling, {1, 1, 0, 0, low, low}, name + " descending");
    p.expect(
        falling_places,
        is_signed ? std::vector<double>{0, 3, 2, 5, 1, 4} : std::vector<double>{0, 3, 1, 2, 4, 5},
        name + " descending indices");
  }
  for (const ElementType element : {kF32, kF64}) {
    const Operand y = p.vector(element, {kNan, -0.0, -kNan, kInf, 0.0, -0.0, -5});
    const auto [sorted, places] = p.b.sort_with_indices(y, 0, false);
    p.expect(sorted, {-5, -0.0, 0.0, -0.0, kInf, kNan, kNan}, "zeros and NaNs");
    p.expect(places, {6, 1, 4, 5, 3, 0, 2}, "zeros and NaNs, indices");
    const auto [falling, falling_places] = p.b.sort_with_indices(y, 0, true);
    p.expect(falling_places, {0, 2, 3, 1, 4, 5, 6}, "zeros and NaNs, descending indices");
  }
  // By the second key where the first is equal.
  const Operands keys = p.b.sort(
      {p.vector(kS32, {1, 0, 1, 0}), p.vector(kS32, {5, 4, 3, 9})}, 0, true,
      [](StableHloBuilder& b, OperandList l, OperandList r) {
        return b.bit_or(b.less(l[0], r[0]), b.bit_and(b.equal(l[0], r[0]), b.less(l[1], r[1])));
      });
  p.expect(keys[1], {4, 9, 3, 5}, "two keys");
  const auto [top, top_index] = p.b.top_k(p.input({kF32, {2, 4}}, {3, 9, 1, 4, 0, 2, 1, 2}), 2);
  p.expect_type(top_index, kS32, {2, 2});
  p.expect(top, {9, 4, 2, 2}, "top_k");
  p.expect(top_index, {1, 3, 1, 3}, "top_k indices");
  const auto [top_nan, top_nan_index] = p.b.top_k(p.vector(kF32, {3, kNan, 1, kInf, -kNan}), 3);
  p.expect(top_nan, {kNan, kNan, kInf}, "top_k of NaN");
  p.expect(top_nan_index, {1, 4, 3}, "top_k of NaN, indices");
  const auto [top_integer, top_integer_index] = p.b.top_k(p.vector(kS64, {3, -9, 7}), 2);
  p.expect(top_integer, {7, 3}, "top_k of integers");
  p.expect(top_integer_index, {2, 0}, "top_k of integers, indices");
  p.run(client());
}

TEST_P(StableHloIndexing, RandomBits) {
  TestedProgram p;
  const Operand state = p.vector(kU64, {12345, 0});
  for (const RngAlgorithm algorithm : {RngAlgorithm::kThreeFry, RngAlgorithm::kPhilox}) {
    const auto [next, bits] = p.b.rng_bit_generator(state, algorithm, {kU32, {4096}});
    p.expect_type(next, kU64, {2});
    p.expect(p.b.reduce(p.b.convert(p.b.not_equal(next, state), kS32), Reducer::kMaximum, {0}), {1},
             "the state moves on");
    // The mean of uniform numbers in [0, 1).
    const Operand uniform =
        p.b.multiply(p.b.convert(p.b.shift_right_logical(bits, 8), kF64), 0x1p-24);
    p.expect(p.b.divide(p.b.reduce(uniform, Reducer::kAdd, {0}), 4096.0), {0.5}, "mean", 0.03);
    const auto [same, again] = p.b.rng_bit_generator(state, algorithm, {kU32, {4096}});
    p.expect(p.b.reduce(p.b.equal(bits, again), Reducer::kAnd, {0}), {1}, "reproducible");
    const auto [later, others] = p.b.rng_bit_generator(next, algorithm, {kU32, {4096}});
    p.expect(
        p.b.less(p.b.reduce(p.b.convert(p.b.equal(bits, others), kS32), Reducer::kAdd, {0}), 10),
        {1}, "the next bits differ");
  }
  p.run(client());
}

TEST_P(StableHloIndexing, Control) {
  TestedProgram p;
  const Operand x = p.vector(kF32, {1, 2});
  // Doubles until the sum passes 100; the step comes from outside the loop.
  const Operand step = p.b.scalar(kS32, 1);
  const Operand factor = p.b.add(p.b.filled_like(x, 1), 1);
  const Operands loop = p.b.while_loop(
      {p.b.scalar(kS32, 0), x},
      [](StableHloBuilder& b, OperandList v) {
        return Operands{b.less(b.reduce(v[1], Reducer::kAdd, {0}), 100)};
      },
      [&](StableHloBuilder& b, OperandList v) {
        return Operands{b.add(v[0], step), b.multiply(v[1], factor)};
      });
  p.expect(loop[0], {6}, "iterations");
  p.expect(loop[1], {64, 128}, "doubled");
  for (const bool yes : {true, false}) {
    const Operands branch = p.b.if_else(
        p.b.equal(p.b.select_index(x, 0, 0), yes ? 1 : 2),
        [&](StableHloBuilder& b, OperandList) { return Operands{b.negate(x), step}; },
        [&](StableHloBuilder& b, OperandList) { return Operands{x, b.scalar(kS32, 7)}; });
    p.expect(branch[0], yes ? std::vector<double>{-1, -2} : std::vector<double>{1, 2}, "if");
    p.expect(branch[1], {yes ? 1.0 : 7.0}, "if, second value");
  }
  for (int chosen = 0; chosen < 4; ++chosen) {
    const auto times = [x](double number) {
      return Body([x, number](StableHloBuilder& b, OperandList) {
        return Operands{b.multiply(x, number)};
      });
    };
    const Operands branch =
        p.b.switch_case(p.b.scalar(kS32, chosen), {times(1), times(10), times(100)});
    const double scale = chosen == 0 ? 1 : chosen == 1 ? 10 : 100;
    p.expect(branch[0], {scale, 2 * scale}, "case");
  }
  const Operands barred = p.b.optimization_barrier({x, step});
  p.expect(barred[0], {1, 2}, "barrier");
  p.expect(barred[1], {1}, "barrier, second value");
  p.expect(p.b.custom_call("Sharding", {x}, {x.type()}, "mhlo.sharding = \"{replicated}\"")[0],
           {1, 2}, "custom_call");
  p.run(client());
}

}  // namespace
}  // namespace torch_pjrt::graph
