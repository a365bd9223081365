#include "graph/stablehlo_builder.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace torch_pjrt::graph {
namespace {

using enum pjrt::ElementType;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(StableHloText, SmallProgram) {
  StableHloBuilder b;
  const Operand x = b.parameter({kF32, {2, 3}}, "jax.buffer_donor = true");
  const Operand y = b.parameter({kF32, {2, 3}});
  b.set_location("aten::add \"a\"");
  const Operand sum = b.add(x, y);
  b.set_location({});
  const Operand half = b.multiply(sum, 0.5);
  b.set_location("aten::add \"a\"");
  const Operand total = b.reduce(half, Reducer::kAdd, {1});
  const std::string_view attributes[] = {"mhlo.sharding = \"{replicated}\"", ""};
  EXPECT_EQ(b.finish({total, half}, "mhlo.num_partitions = 1 : i32", std::span(attributes)),
            R"(module @program attributes {mhlo.num_partitions = 1 : i32} {
func.func public @main(%0: tensor<2x3xf32> {jax.buffer_donor = true}, %1: tensor<2x3xf32>) -> (tensor<2xf32> {mhlo.sharding = "{replicated}"}, tensor<2x3xf32>) {
%2 = stablehlo.add %0, %1 : tensor<2x3xf32> loc(#l0)
%3 = stablehlo.constant dense<0.5> : tensor<f32>
%4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
%5 = stablehlo.multiply %2, %4 : tensor<2x3xf32>
%6 = stablehlo.constant dense<0.0> : tensor<f32> loc(#l0)
%7 = stablehlo.reduce(%5 init: %6) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32> loc(#l0)
return %7, %5 : tensor<2xf32>, tensor<2x3xf32>
}
}
#l0 = loc("aten::add \22a\22")
)");
}

TEST(StableHloText, EqualConstantsAreWrittenOnce) {
  StableHloBuilder b;
  const Operand one = b.scalar(kF32, 1);
  EXPECT_EQ(b.scalar(kF32, 1.0), one);
  EXPECT_NE(b.scalar(kF64, 1), one);
  EXPECT_NE(b.scalar(kF32, -0.0), b.scalar(kF32, 0.0));
  EXPECT_EQ(b.filled({kF32, {2}}, 1), b.ones({kF32, {2}}));
  EXPECT_EQ(b.iota({kS32, {4}}, 0), b.iota({kS32, {4}}, -1));
  EXPECT_NE(b.iota({kS32, {4, 4}}, 0), b.iota({kS32, {4, 4}}, 1));
  // A region has constants of its own.
  b.while_loop(
      {one}, [](StableHloBuilder& r, OperandList) { return Operands{r.scalar(kPred, true)}; },
      [&](StableHloBuilder& r, OperandList) {
        EXPECT_NE(r.scalar(kF32, 1), one);
        return Operands{r.scalar(kF32, 1)};
      });
  EXPECT_EQ(b.scalar(kF32, 1), one);
}

TEST(StableHloText, TheSameCallsGiveTheSameTextWhateverRoomWasMade) {
  const auto write = [](size_t expected_bytes) {
    StableHloBuilder b(expected_bytes);
    const Operand x = b.parameter({kF32, {8, 16}});
    return b.finish({b.softmax(x, 1), b.cumulative(x, 1, Reducer::kAdd), b.argmax(x, 0).second});
  };
  EXPECT_EQ(write(0), write(0));
  EXPECT_EQ(write(0), write(size_t{1} << 20));
}

TEST(StableHloErrors, NameTheProblem) {
  StableHloBuilder b;
  const Operand x = b.parameter({kF32, {2}}), y = b.parameter({kF32, {3}});
  const Operand i = b.parameter({kS32, {2}});
  EXPECT_EQ(error_of([&] { b.add(x, y); }),
            "stablehlo.add: operand types differ; got tensor<2xf32> and tensor<3xf32>; expected "
            "equal types; broadcast one of them first");
  EXPECT_EQ(error_of([&] { b.add(x, i); }),
            "stablehlo.add: operand types differ; got tensor<2xf32> and tensor<2xi32>; expected "
            "equal types; convert one of them first");
  EXPECT_EQ(error_of([&] { b.sqrt(i); }),
            "stablehlo.sqrt: the operation does not take this element type; got tensor<2xi32>; "
            "expected floating, complex; convert the operand first");
  EXPECT_EQ(error_of([&] { b.add(i, 0.5); }),
            "constant: the number is no value of the element type; got 0.500000; expected i32; "
            "convert the operand, or round the number");
  EXPECT_EQ(error_of([&] { b.reduce(x, Reducer::kAdd, {1}); }),
            "stablehlo.reduce: the dimension is out of range; got 1; expected a dimension of an "
            "array of rank 1");
}

TEST(StableHloErrors, ComeFromEachFamily) {
  StableHloBuilder b;
  const Operand x = b.parameter({kF32, {2, 3}}), v = b.parameter({kF32, {3}});
  const Operand i = b.parameter({kS32, {2}});
  const auto fails = [](const std::function<void()>& call, std::string_view begin) {
    const std::string error = error_of(call);
    EXPECT_EQ(std::string_view(error).substr(0, begin.size()), begin) << error;
  };
  fails([&] { b.scalar(kS8, 128); }, "constant: ");
  fails([&] { b.scalar(kU8, -1); }, "constant: ");
  fails([&] { b.scalar(kS32, std::numeric_limits<double>::quiet_NaN()); }, "constant: ");
  fails([&] { b.scalar(kF32, std::complex<double>(0, 1)); }, "constant: ");
  fails([&] { b.add(1, 2); }, "stablehlo.add: both operands are numbers");
  fails([&] { b.add(Operand(), x); }, "stablehlo.add: an operand is empty");
  fails([&] { b.negate(Operand()); }, "stablehlo.negate: an operand is empty");
  fails([&] { b.select(x, x, x); }, "stablehlo.select: the predicate");
  fails([&] { b.clamp(v, x, 1); }, "stablehlo.clamp: a bound");
  fails([&] { b.complex(i, i); }, "stablehlo.complex: ");
  fails([&] { b.bitcast_convert(v, kF64); }, "stablehlo.bitcast_convert: ");
  fails([&] { b.reshape(x, {4}); }, "stablehlo.reshape: ");
  fails([&] { b.reshape(x, {-1, 4}); }, "stablehlo.reshape: ");
  fails([&] { b.transpose(x, {0, 0}); }, "stablehlo.transpose: ");
  fails([&] { b.broadcast_to(x, {2, 4}); }, "broadcast_to: ");
  fails([&] { b.broadcast_in_dim(v, {3, 3}, {2}); }, "stablehlo.broadcast_in_dim: ");
  fails([&] { b.concatenate({x, v}, 0); }, "stablehlo.concatenate: ");
  fails([&] { b.concatenate({}, 0); }, "stablehlo.concatenate: ");
  fails([&] { b.slice(v, {1}, {4}); }, "stablehlo.slice: ");
  fails([&] { b.dynamic_slice(v, {v}, {1}); }, "stablehlo.dynamic_slice: ");
  fails([&] { b.pad(v, 0, {-2}, {-2}); }, "stablehlo.pad: ");
  fails([&] { b.reverse(v, {0, 0}); }, "stablehlo.reverse: ");
  fails([&] { b.reduce(x, b.scalar(kS32, 0), Reducer::kAdd, {0}); }, "stablehlo.reduce: ");
  fails([&] { b.reduce_window(x, b.scalar(kF32, 0), Reducer::kAdd, {{1}, {}, {}, {}, {}, {}}); },
        "stablehlo.reduce_window: ");
  fails([&] { b.dot_general(x, x, {{}, {}, {1}, {0}}); }, "stablehlo.dot_general: ");
  fails([&] { b.convolution(x, x, {}, convolution_dimensions(2)); }, "stablehlo.convolution: ");
  fails([&] { b.cholesky(x); }, "stablehlo.cholesky: ");
  fails([&] { b.triangular_solve(x, x, true, true, false); }, "stablehlo.triangular_solve: ");
  fails([&] { b.fft(x, FftType::kForward, {3}); }, "stablehlo.fft: ");
  fails([&] { b.take(x, v, 0); }, "stablehlo.gather: the indices are no integers");
  fails([&] { b.gather_elements(x, i, 0); }, "gather_elements: ");
  fails([&] { b.scatter_slices(x, i, v, 0, Reducer::kAdd); }, "stablehlo.scatter: ");
  fails([&] { b.top_k(x, 4); }, "chlo.top_k: ");
  fails([&] { b.rng_bit_generator(i, RngAlgorithm::kPhilox, {kU32, {4}}); },
        "stablehlo.rng_bit_generator: ");
  fails([&] { b.if_else(i, {}, {}); }, "stablehlo.if: ");
  fails([&] { b.squeeze(x, 0); }, "squeeze: ");
  StableHloBuilder other;
  fails([&] { other.negate(x); }, "stablehlo.negate: an operand belongs to another builder");
}

TEST(StableHloErrors, RegionsKeepTheirValues) {
  const auto number = [](StableHloBuilder& b) { return b.scalar(kF32, 1); };
  {
    StableHloBuilder b;
    const Operand x = b.parameter({kF32, {2}}), outside = b.parameter({kF32, {}});
    const std::string error = error_of([&] {
      b.reduce({x}, {number(b)}, {0}, [&](StableHloBuilder& r, OperandList l, OperandList) {
        return Operands{r.add(l[0], outside)};
      });
    });
    EXPECT_NE(error.find("uses a value from outside"), std::string::npos) << error;
  }
  {
    StableHloBuilder b;
    Operand leaked;
    b.while_loop(
        {number(b)},
        [](StableHloBuilder& r, OperandList) { return Operands{r.scalar(kPred, false)}; },
        [&](StableHloBuilder& r, OperandList v) { return Operands{leaked = r.negate(v[0])}; });
    const std::string error = error_of([&] { b.negate(leaked); });
    EXPECT_NE(error.find("a region that has ended"), std::string::npos) << error;
  }
  {
    StableHloBuilder b;
    const std::string error = error_of([&] {
      b.while_loop(
          {number(b)},
          [](StableHloBuilder& r, OperandList) { return Operands{r.scalar(kPred, false)}; },
          [&](StableHloBuilder& r, OperandList) { return Operands{r.scalar(kF64, 1)}; });
    });
    EXPECT_NE(error.find("a value of the wrong type; got tensor<f64>"), std::string::npos) << error;
  }
}

TEST(StableHloTypes, ReferencesStayValid) {
  StableHloBuilder b;
  const Operand x = b.parameter({kF32, {2}});
  const Type& type = x.type();
  Operand y = x;
  for (int i = 0; i < 1000; ++i) y = b.add(y, x);
  EXPECT_EQ(&type, &x.type());
  EXPECT_EQ(to_string(type), "tensor<2xf32>");
  EXPECT_EQ(b.statement_count(), 1000u);
}

}  // namespace
}  // namespace torch_pjrt::graph
