#include "graph/program_test_support.h"

namespace torch_pjrt::graph {
namespace {

class StableHloReduce : public OnEachPlugin {};
ON_EACH_PLUGIN(StableHloReduce);

TEST_P(StableHloReduce, OneArray) {
  TestedProgram p;
  const Operand x = p.input({kF32, {2, 3}}, {1, -2, 3, 4, 5, 0.5});
  p.expect(p.b.reduce(x, Reducer::kAdd, {1}), {2, 9.5}, "sum");
  p.expect(p.b.reduce(x, Reducer::kMultiply, {0}), {4, -10, 1.5}, "product");
  p.expect(p.b.reduce(x, Reducer::kMaximum, {-1}), {3, 5}, "maximum");
  p.expect(p.b.reduce(x, Reducer::kMinimum, all_dims(x)), {-2}, "minimum");
  p.expect_type(p.b.reduce(x, Reducer::kAdd, {0, 1}, true), kF32, {1, 1});
  p.expect_type(p.b.reduce(x, Reducer::kAdd, {0}, true), kF32, {1, 3});
  EXPECT_EQ(p.b.reduce(x, Reducer::kAdd, {}), x);
  p.expect(p.b.reduce(x, p.b.scalar(kF32, 100), Reducer::kAdd, {0, 1}), {111.5}, "from 100");
  const Operand bits = p.input({kPred, {2, 2}}, {1, 0, 1, 1});
  p.expect(p.b.reduce(bits, Reducer::kAnd, {1}), {0, 1}, "all");
  p.expect(p.b.reduce(bits, Reducer::kOr, {1}), {1, 1}, "any");
  const Operand numbers = p.vector(kS32, {12, 10});
  p.expect(p.b.reduce(numbers, Reducer::kAnd, {0}), {8}, "and of integers");
  p.expect(p.b.reduce(p.vector(kF32, {1, kNan, 2}), Reducer::kMaximum, {0}), {kNan}, "NaN wins");
  p.expect(p.b.reduce(p.b.zeros({kF32, {0, 2}}), Reducer::kMaximum, {0}), {-kInf, -kInf}, "empty");
  p.expect(p.b.reduce(p.b.zeros({kF32, {0}}), Reducer::kMultiply, {0}), {1}, "empty product");
  p.run(client());
}

TEST_P(StableHloReduce, SeveralArrays) {
  TestedProgram p;
  const Operand x = p.input({kF32, {2, 3}}, {1, -2, 3, 4, 5, 0.5});
  const Operand index = p.b.iota({kS32, {2, 3}}, 1);
  // The place of the greatest, and the greatest, with a constant used inside the body.
  const Operands both = p.b.reduce(
      {x, index}, {p.b.lowest(kF32), p.b.scalar(kS32, 0)}, {1},
      [](StableHloBuilder& b, OperandList lhs, OperandList rhs) -> Operands {
        const Operand first = b.greater(b.subtract(lhs[0], rhs[0]), 0.0);
        return {b.select(first, lhs[0], rhs[0]), b.select(first, lhs[1], rhs[1])};
      },
      true);
  p.expect_type(both[1], kS32, {2, 1});
  p.expect(both[0], {3, 5}, "value");
  p.expect(both[1], {2, 1}, "index");
  p.run(client());
}

TEST_P(StableHloReduce, Arguments) {
  TestedProgram p;
  const Operand x =
      p.input({kF32, {3, 4}}, {1, 7, 7, 2, kNan, 3, kNan, 9, -kInf, -kInf, -kInf, -kInf});
  const auto [greatest, at] = p.b.argmax(x, 1);
  p.expect_type(at, kS64, {3});
  p.expect(greatest, {7, kNan, -kInf}, "max");
  p.expect(at, {1, 0, 0}, "argmax");
  const auto [least, low] = p.b.argmin(x, -1, kS32, true);
  p.expect_type(low, kS32, {3, 1});
  p.expect(least, {1, kNan, -kInf}, "min");
  p.expect(low, {0, 0, 0}, "argmin");
  const auto [integer, place] = p.b.argmax(p.vector(kS64, {3, 9, 9}), 0);
  p.expect(integer, {9}, "integer max");
  p.expect(place, {1}, "integer argmax");
  p.run(client());
}

TEST_P(StableHloReduce, Cumulative) {
  TestedProgram p;
  for (const int64_t size : {0, 1, 2, 3, 7, 8, 1000}) {
    const std::vector<double> values = counting(size, 1);
    std::vector<double> sums;
    double sum = 0;
    for (double v : values) sums.push_back(sum += v);
    p.expect(p.b.cumulative(p.vector(kF64, values), 0, Reducer::kAdd), sums,
             "sums of " + std::to_string(size), 1e-12);
  }
  const Operand x = p.input({kS32, {3, 2}}, {3, 1, 2, 5, 4, 4});
  p.expect(p.b.cumulative(x, 0, Reducer::kMaximum), {3, 1, 3, 5, 4, 5}, "cummax");
  p.expect(p.b.cumulative(x, 1, Reducer::kMultiply), {3, 3, 2, 10, 4, 16}, "cumprod");
  p.expect(p.b.cumulative(x, 0, Reducer::kMinimum), {3, 1, 2, 1, 2, 1}, "cummin");
  p.expect(p.b.cumulative(p.vector(kF32, {1, kNan, 2}), 0, Reducer::kAdd), {1, kNan, kNan}, "NaN");
  p.expect(p.b.cumulative(p.vector(kF32, {1, kInf, 2}), 0, Reducer::kAdd), {1, kInf, kInf}, "inf");
  p.expect(p.b.cumulative(p.vector(kF32, {3, kNan, 2}), 0, Reducer::kMaximum), {3, kNan, kNan},
           "cummax of NaN");
  p.expect(
      p.b.cumulative(p.b.iota({kS64, {3, 500}}, 1), 1, Reducer::kAdd),
      [] {
        std::vector<double> rows;
        for (int row = 0; row < 3; ++row) {
          for (int i = 0; i < 500; ++i) rows.push_back(i * (i + 1) / 2);
        }
        return rows;
      }(),
      "rows");
  p.run(client());
}

TEST_P(StableHloReduce, AssociativeScanOfPairs) {
  TestedProgram p;
  // (a1, c1) then (a2, c2) is x -> a2 (a1 x + c1) + c2: a linear recurrence.
  const std::vector<double> a{0.5, 2, -1, 3, 1}, c{1, 2, 3, 4, 5};
  const Operands result = p.b.associative_scan(
      {p.vector(kF64, a), p.vector(kF64, c)}, 0,
      [](StableHloBuilder& b, OperandList lhs, OperandList rhs) -> Operands {
        return {b.multiply(lhs[0], rhs[0]), b.add(b.multiply(rhs[0], lhs[1]), rhs[1])};
      });
  std::vector<double> states;
  double state = 0;
  for (size_t i = 0; i < a.size(); ++i) states.push_back(state = a[i] * state + c[i]);
  p.expect(result[1], states, "recurrence", 1e-12);
  p.run(client());
}

TEST_P(StableHloReduce, Softmax) {
  TestedProgram p;
  const std::vector<double> values{1, 2, 3, 1000, 1000, -1000};
  const Operand x = p.input({kF32, {2, 3}}, values);
  std::vector<double> soft, logs;
  for (size_t row = 0; row < 6; row += 3) {
    double sum = 0;
    const double top = *std::max_element(values.begin() + row, values.begin() + row + 3);
    for (size_t i = 0; i < 3; ++i) sum += std::exp(values[row + i] - top);
    for (size_t i = 0; i < 3; ++i) {
      logs.push_back(values[row + i] - top - std::log(sum));
      soft.push_back(std::exp(logs.back()));
    }
  }
  p.expect(p.b.softmax(x, 1), soft, "softmax", 1e-6);
  p.expect(p.b.log_softmax(x, -1), logs, "log_softmax", 1e-6);
  p.run(client());
}

TEST_P(StableHloReduce, Windows) {
  TestedProgram p;
  const Operand x = p.input({kF32, {1, 5}}, {1, 2, 3, 4, 5});
  Window window;
  window.sizes = {1, 2};
  window.strides = {1, 2};
  window.padding = {{0, 0}, {1, 0}};
  p.expect(p.b.reduce_window(x, p.b.scalar(kF32, 0), Reducer::kAdd, window), {1, 5, 9}, "sums");
  p.expect(p.b.reduce_window(x, p.b.lowest(kF32), Reducer::kMaximum, window), {1, 3, 5}, "maxima");
  Window dilated;
  dilated.sizes = {1, 2};
  dilated.window_dilations = {1, 3};
  p.expect(p.b.reduce_window(x, p.b.scalar(kF32, 0), Reducer::kAdd, dilated), {5, 7}, "dilated");
  const Operands both = p.b.reduce_window(
      {x, p.b.iota({kS32, {1, 5}}, 1)}, {p.b.lowest(kF32), p.b.scalar(kS32, -1)}, window,
      [](StableHloBuilder& b, OperandList lhs, OperandList rhs) -> Operands {
        const Operand first = b.greater_equal(lhs[0], rhs[0]);
        return {b.select(first, lhs[0], rhs[0]), b.select(first, lhs[1], rhs[1])};
      });
  p.expect(both[1], {0, 2, 4}, "window argmax");
  const Operand source = p.b.reshape(p.b.real_list(kF32, {10, 20, 30}), {1, 3});
  p.expect(p.b.select_and_scatter(x, source, p.b.scalar(kF32, 0), Comparison::kGreaterEqual,
                                  Reducer::kAdd, window),
           {10, 0, 20, 0, 30}, "select_and_scatter");
  p.run(client());
}

}  // namespace
}  // namespace torch_pjrt::graph
