#include <limits>

#include "graph/program_test_support.h"

namespace torch_pjrt::graph {
namespace {

class StableHloElementwise : public OnEachPlugin {};
ON_EACH_PLUGIN(StableHloElementwise);

TEST_P(StableHloElementwise, FloatingBinaries) {
  TestedProgram p;
  const std::vector<double> left{-2.5, 0.5, 3, 7, 1}, right{2, -0.25, 3, 2.5, kNan};
  const Operand a = p.vector(kF32, left), c = p.vector(kF32, right);
  const auto check = [&](Operand x, const std::function<double(double, double)>& f,
                         const char* name, double tolerance = 1e-6) {
    p.expect_type(x, kF32, {5});
    p.expect(x, mapped(left, right, f), name, tolerance);
  };
  check(p.b.add(a, c), [](double x, double y) { return x + y; }, "add");
  check(p.b.subtract(a, c), [](double x, double y) { return x - y; }, "subtract");
  check(p.b.multiply(a, c), [](double x, double y) { return x * y; }, "multiply");
  check(p.b.divide(a, c), [](double x, double y) { return x / y; }, "divide");
  check(p.b.remainder(a, c), [](double x, double y) { return std::fmod(x, y); }, "remainder");
  check(p.b.atan2(a, c), [](double x, double y) { return std::atan2(x, y); }, "atan2");
  check(p.b.maximum(a, c), [](double x, double y) { return y != y ? y : std::max(x, y); }, "max");
  check(p.b.minimum(a, c), [](double x, double y) { return y != y ? y : std::min(x, y); }, "min");
  check(
      p.b.power(p.b.abs(a), c), [](double x, double y) { return std::pow(std::abs(x), y); },
      "power", 1e-5);
  p.expect(p.b.add(a, 1.5), mapped(left, [](double x) { return x + 1.5; }), "add number");
  p.expect(p.b.subtract(1, a), mapped(left, [](double x) { return 1 - x; }), "number minus");
  p.expect(p.b.reciprocal(a), mapped(left, [](double x) { return 1 / x; }), "reciprocal", 1e-6);
  p.expect(p.b.next_after(a, 100.0),
           mapped(left, [](double x) { return std::nextafterf(static_cast<float>(x), 100.f); }),
           "next_after");
  p.run(client());
}

// Where the divisors' product, which one division would take, is out of range.
TEST_P(StableHloElementwise, QuotientsAreDividedAsTheyAre) {
  for (const ElementType element : {kF32, ElementType::kF64}) {
    TestedProgram p;
    const double big = element == kF32 ? 1e30 : 1e300, small = 1 / big;
    const Operand a = p.vector(element, {small, 2}), c = p.vector(element, {small, 4});
    p.expect(p.b.divide(p.b.divide(a, c), c), {big, 0.125}, "(a / c) / c", big * 1e-6);
    const Operand d = p.vector(element, {big, 2}), e = p.vector(element, {big, 4});
    p.expect(p.b.divide(d, p.b.divide(e, e)), {big, 2}, "d / (e / e)", big * 1e-6);
    p.run(client());
  }
}

TEST_P(StableHloElementwise, LogarithmsOfPowersAreOfTheirValues) {
  TestedProgram p;
  const Operand base = p.vector(kF32, {-2, 2, -1, 1e-20}),
                exponent = p.vector(kF32, {3, 5, .5, -3});
  p.expect(p.b.log(p.b.power(base, exponent)), {kNan, 5 * std::log(2.0), kNan, kInf}, "log", 1e-6);
  p.run(client());
}

TEST_P(StableHloElementwise, IntegerBinaries) {
  TestedProgram p;
  const std::vector<double> left{-7, 12, 5, 100, -1}, right{2, 5, -3, 7, 3};
  const Operand a = p.vector(kS32, left), c = p.vector(kS32, right);
  const auto check = [&](Operand x, const std::function<int64_t(int64_t, int64_t)>& f,
                         const char* name) {
    p.expect(
        x,
        mapped(left, right,
               [&](double l, double r) {
                 return static_cast<double>(f(static_cast<int64_t>(l), static_cast<int64_t>(r)));
               }),
        name);
  };
  check(p.b.divide(a, c), [](int64_t x, int64_t y) { return x / y; }, "divide");
  check(p.b.remainder(a, c), [](int64_t x, int64_t y) { return x % y; }, "remainder");
  check(p.b.bit_and(a, c), [](int64_t x, int64_t y) { return x & y; }, "and");
  check(p.b.bit_or(a, c), [](int64_t x, int64_t y) { return x | y; }, "or");
  check(p.b.bit_xor(a, c), [](int64_t x, int64_t y) { return x ^ y; }, "xor");
  check(p.b.bit_not(a), [](int64_t x, int64_t) { return ~x; }, "not");
  const Operand shift = p.b.abs(c);
  check(
      p.b.shift_left(a, shift), [](int64_t x, int64_t y) { return x * (1 << std::abs(y)); },
      "shift_left");
  check(
      p.b.shift_right_arithmetic(a, shift), [](int64_t x, int64_t y) { return x >> std::abs(y); },
      "shift_right_arithmetic");
  check(
      p.b.shift_right_logical(a, shift),
      [](int64_t x, int64_t y) { return static_cast<uint32_t>(x) >> std::abs(y); },
      "shift_right_logical");
  check(
      p.b.popcnt(a), [](int64_t x, int64_t) { return __builtin_popcount(static_cast<int>(x)); },
      "popcnt");
  check(
      p.b.count_leading_zeros(a),
      [](int64_t x, int64_t) { return x < 0 ? 0 : __builtin_clz(static_cast<unsigned>(x)); },
      "count_leading_zeros");
  check(p.b.sign(a), [](int64_t x, int64_t) { return x < 0 ? -1 : 1; }, "sign");
  check(p.b.negate(a), [](int64_t x, int64_t) { return -x; }, "negate");
  check(p.b.power(a, 3), [](int64_t x, int64_t) { return x * x * x; }, "power");
  const Operand bytes = p.vector(kU8, {0, 200, 255});
  p.expect(p.b.add(bytes, 100), {100, 44, 99}, "u8 wraps");
  p.expect(p.b.sign(bytes), {0, 1, 1}, "u8 sign");
  p.expect(p.b.shift_right_arithmetic(bytes, 1), {0, 100, 127}, "u8 shift");
  const Operand bits = p.vector(kPred, {0, 1, 1}), others = p.vector(kPred, {0, 0, 1});
  p.expect(p.b.add(bits, others), {0, 1, 1}, "i1 add");
  p.expect(p.b.multiply(bits, others), {0, 0, 1}, "i1 multiply");
  p.expect(p.b.bit_not(bits), {1, 0, 0}, "i1 not");
  p.expect(p.b.maximum(bits, others), {0, 1, 1}, "i1 maximum");
  p.run(client());
}

TEST_P(StableHloElementwise, Unaries) {
  TestedProgram p;
  const std::vector<double> values{-2.5, -1, -0.5, 0.25, 0.5, 1.5, 3};
  const Operand x = p.vector(kF64, values);
  const auto check = [&](Operand y, const std::function<double(double)>& f, const char* name,
                         double tolerance = 1e-12) {
    p.expect_type(y, kF64, {7});
    p.expect(y, mapped(values, f), name, tolerance);
  };
  check(p.b.negate(x), [](double v) { return -v; }, "negate", 0);
  check(p.b.abs(x), [](double v) { return std::abs(v); }, "abs", 0);
  check(p.b.sign(x), [](double v) { return v > 0 ? 1 : -1; }, "sign", 0);
  check(p.b.floor(x), [](double v) { return std::floor(v); }, "floor", 0);
  check(p.b.ceil(x), [](double v) { return std::ceil(v); }, "ceil", 0);
  check(p.b.trunc(x), [](double v) { return std::trunc(v); }, "trunc", 0);
  check(p.b.round_nearest_even(x), [](double v) { return std::nearbyint(v); }, "round even", 0);
  check(p.b.round_nearest_afz(x), [](double v) { return std::round(v); }, "round afz", 0);
  check(p.b.sqrt(x), [](double v) { return std::sqrt(v); }, "sqrt");
  check(p.b.rsqrt(x), [](double v) { return 1 / std::sqrt(v); }, "rsqrt");
  check(p.b.cbrt(x), [](double v) { return std::cbrt(v); }, "cbrt");
  check(p.b.exponential(x), [](double v) { return std::exp(v); }, "exponential");
  check(p.b.exponential_minus_one(x), [](double v) { return std::expm1(v); }, "expm1");
  check(p.b.log(x), [](double v) { return std::log(v); }, "log");
  check(p.b.log_plus_one(x), [](double v) { return std::log1p(v); }, "log1p");
  check(p.b.logistic(x), [](double v) { return 1 / (1 + std::exp(-v)); }, "logistic");
  check(p.b.tanh(x), [](double v) { return std::tanh(v); }, "tanh");
  check(p.b.sine(x), [](double v) { return std::sin(v); }, "sine");
  check(p.b.cosine(x), [](double v) { return std::cos(v); }, "cosine");
  check(p.b.tan(x), [](double v) { return std::tan(v); }, "tan");
  check(p.b.square(x), [](double v) { return v * v; }, "square");
  check(p.b.erf(x), [](double v) { return std::erf(v); }, "erf");
  check(p.b.erfc(x), [](double v) { return std::erfc(v); }, "erfc");
  check(
      p.b.erf(p.b.erf_inv(p.b.multiply(x, 0.25))), [](double v) { return v / 4; }, "erf_inv", 1e-9);
  check(p.b.lgamma(p.b.abs(x)), [](double v) { return std::lgamma(std::abs(v)); }, "lgamma", 1e-10);
  check(p.b.asin(x), [](double v) { return std::asin(v); }, "asin");
  check(p.b.acos(x), [](double v) { return std::acos(v); }, "acos");
  check(p.b.atan(x), [](double v) { return std::atan(v); }, "atan");
  check(p.b.sinh(x), [](double v) { return std::sinh(v); }, "sinh");
  check(p.b.cosh(x), [](double v) { return std::cosh(v); }, "cosh");
  check(p.b.asinh(x), [](double v) { return std::asinh(v); }, "asinh");
  check(p.b.acosh(x), [](double v) { return std::acosh(v); }, "acosh");
  check(p.b.atanh(p.b.multiply(x, 0.25)), [](double v) { return std::atanh(v / 4); }, "atanh");
  check(p.b.conj(x), [](double v) { return v; }, "conj of a real", 0);
  p.run(client());
}

TEST_P(StableHloElementwise, SpecialFunctions) {
  TestedProgram p;
  const Operand x = p.vector(kF64, {1, 2, 0.5});
  constexpr double kEuler = 0.57721566490153286, kPi = 3.14159265358979324;
  p.expect(p.b.digamma(x), {-kEuler, 1 - kEuler, -kEuler - 2 * std::log(2.0)}, "digamma", 1e-10);
  p.expect(p.b.polygamma(1.0, x), {kPi * kPi / 6, kPi * kPi / 6 - 1, kPi * kPi / 2}, "polygamma",
           1e-10);
  p.expect(p.b.zeta(2.0, x), {kPi * kPi / 6, kPi * kPi / 6 - 1, kPi * kPi / 2}, "zeta", 1e-10);
  // exp(-x) I1(x), from tables
  p.expect(p.b.bessel_i1e(x), {0.20791041534970845, 0.21526928924893765, 0.15642080318487169},
           "bessel_i1e", 1e-7);
  p.run(client());
}

TEST_P(StableHloElementwise, NotANumberAndInfinity) {
  TestedProgram p;
  const Operand x = p.vector(kF32, {0, 1, kNan, kInf, -kInf});
  p.expect_type(p.b.is_nan(x), kPred, {5});
  p.expect(p.b.is_nan(x), {0, 0, 1, 0, 0}, "is_nan");
  p.expect(p.b.is_inf(x), {0, 0, 0, 1, 1}, "is_inf");
  p.expect(p.b.multiply(x, p.b.convert(p.b.greater(x, 5), kF32)), {0, 0, kNan, kInf, kNan},
           "times a converted predicate");
  p.expect(p.b.is_finite(x), {1, 1, 0, 0, 0}, "is_finite");
  p.expect(p.b.convert(x, kPred), {0, 1, 1, 1, 1}, "to i1");
  p.expect(p.b.convert(p.vector(kF32, {-1.9, 2.9, 300}), kS32), {-1, 2, 300}, "truncates");
  p.expect(p.b.convert(p.vector(kF32, {3e9, -3e9, kNan}), kS32), {2147483647, -2147483648.0, 0},
           "saturates");
  const Operand i = p.vector(kS64, {1, -2});
  p.expect(p.b.is_nan(i), {0, 0}, "integer is_nan");
  p.expect(p.b.is_inf(i), {0, 0}, "integer is_inf");
  p.expect(p.b.is_finite(i), {1, 1}, "integer is_finite");
  p.run(client());
}

TEST_P(StableHloElementwise, CompareSelectClamp) {
  TestedProgram p;
  const Operand a = p.vector(kF32, {1, 2, kNan, -0.0}), c = p.vector(kF32, {2, 2, 1, 0.0});
  p.expect(p.b.less(a, c), {1, 0, 0, 0}, "less");
  p.expect(p.b.less_equal(a, c), {1, 1, 0, 1}, "less_equal");
  p.expect(p.b.greater(a, c), {0, 0, 0, 0}, "greater");
  p.expect(p.b.greater_equal(a, c), {0, 1, 0, 1}, "greater_equal");
  p.expect(p.b.equal(a, c), {0, 1, 0, 1}, "equal");
  p.expect(p.b.not_equal(a, c), {1, 0, 1, 0}, "not_equal");
  p.expect(p.b.compare_total_order(Comparison::kLess, a, c), {1, 0, 0, 1}, "total order");
  p.expect(p.b.greater(p.vector(kU8, {200, 1}), 100), {1, 0}, "unsigned");
  p.expect(p.b.less(p.vector(kS8, {-100, 1}), 0), {1, 0}, "signed");
  p.expect(p.b.select(p.b.less(a, c), a, c), {1, 2, 1, 0}, "select");
  p.expect(p.b.select(p.b.less(a, c), 1.0, c), {1, 2, 1, 0}, "select number");
  p.expect(p.b.select(p.b.scalar(kPred, true), a, c), {1, 2, kNan, -0.0}, "select scalar");
  p.expect(p.b.clamp(1.5, c, 1.75), {1.75, 1.75, 1.5, 1.5}, "clamp numbers");
  p.expect(p.b.clamp(1.5, c, c), {2, 2, 1, 0}, "clamp number and array");
  p.expect(p.b.clamp(p.b.zeros_like(c), c, p.b.ones_like(c)), {1, 1, 1, 0}, "clamp arrays");
  p.run(client());
}

TEST_P(StableHloElementwise, ComplexNumbers) {
  TestedProgram p;
  using C = std::complex<double>;
  const std::vector<C> values{{1, 2}, {-3, 0.5}};
  const Operand z = p.complex_vector(values);
  p.expect_type(z, kC128, {2});
  const auto check = [&](Operand y, const std::function<C(C)>& f, const char* name) {
    std::vector<C> wanted;
    for (const C& v : values) wanted.push_back(f(v));
    p.expect_complex(y, wanted, name, 1e-12);
  };
  check(p.b.conj(z), [](C v) { return std::conj(v); }, "conj");
  check(p.b.multiply(z, z), [](C v) { return v * v; }, "multiply");
  check(p.b.divide(z, C(0, 2)), [](C v) { return v / C(0, 2); }, "divide by a complex number");
  const Operand large = p.b.multiply(z, 1e200);
  check(p.b.divide(p.b.divide(large, large), z), [](C v) { return 1.0 / v; }, "divide twice");
  check(p.b.exponential(z), [](C v) { return std::exp(v); }, "exponential");
  check(p.b.log(z), [](C v) { return std::log(v); }, "log");
  check(p.b.sqrt(z), [](C v) { return std::sqrt(v); }, "sqrt");
  check(p.b.sine(z), [](C v) { return std::sin(v); }, "sine");
  check(p.b.tanh(z), [](C v) { return std::tanh(v); }, "tanh");
  p.expect(p.b.abs(z), {std::abs(values[0]), std::abs(values[1])}, "abs", 1e-12);
  p.expect(p.b.equal(z, z), {1, 1}, "equal");
  p.expect(p.b.is_nan(z), {0, 0}, "is_nan");
  p.expect(p.b.is_inf(z), {0, 0}, "is_inf");
  p.expect(p.b.is_finite(z), {1, 1}, "is_finite");
  p.expect(p.b.convert(z, kF32), {1, -3}, "to real");
  p.expect(p.b.convert(z, kPred), {1, 1}, "to i1");
  p.expect_complex(p.b.convert(p.vector(kF32, {1.5}), kC64), {{1.5, 0}}, "from real");
  p.run(client());
}

TEST_P(StableHloElementwise, Conversions) {
  TestedProgram p;
  const Operand x = p.vector(kF32, {1.0, 1.00390625, -2.5, 3.14159265});
  p.expect(p.b.convert(x, kBF16), {1, 1, -2.5, 3.140625}, "bf16");
  p.expect(p.b.convert(x, kF16), {1, 1.00390625, -2.5, 3.140625}, "f16");
  p.expect(p.b.reduce_precision(x, 8, 7), {1, 1, -2.5, 3.140625}, "reduce_precision");
  p.expect(p.b.convert(x, kF8E4M3FN), {1, 1, -2.5, 3.25}, "f8E4M3FN");
  p.expect(p.b.convert(p.vector(kS32, {0, 7, -1}), kPred), {0, 1, 1}, "i32 to i1");
  p.expect(p.b.convert(p.vector(kS64, {300, -1}), kU8), {44, 255}, "i64 to u8");
  EXPECT_EQ(p.b.convert(x, kF32), x);
  p.expect(p.b.bitcast_convert(x, kU32), {0x3F800000, 0x3F808000, 3223322624.0, 1078530011},
           "bits");
  const Operand halves = p.b.bitcast_convert(x, kU16);
  p.expect_type(halves, kU16, {4, 2});
  p.expect(halves, {0, 0x3F80, 0x8000, 0x3F80, 0, 0xC020, 0x0FDB, 0x4049}, "narrower bits");
  p.expect(p.b.bitcast_convert(halves, kF32), {1.0, 1.00390625, -2.5, 3.14159265}, "wider bits",
           1e-6);
  p.run(client());
}

TEST_P(StableHloElementwise, Constants) {
  TestedProgram p;
  const auto expect = [&](ElementType element, Number number, double value) {
    p.expect(p.b.scalar(element, number), {value}, std::string(pjrt::name(element)));
  };
  expect(kF32, 0.1, 0.1f);
  expect(kF32, 1e300, kInf);
  expect(kF32, 1e-40, 1e-40f);
  expect(kF32, -0.0, -0.0);
  expect(kF32, kNan, kNan);
  expect(kF32, -kInf, -kInf);
  expect(kF64, 0.1, 0.1);
  expect(kF64, 5e-324, 5e-324);
  expect(kF64, 123456789012345678, 123456789012345680.0);
  expect(kF64, kInf, kInf);
  expect(kBF16, -kInf, -kInf);
  expect(kBF16, 1.00390625, 1);
  expect(kF16, kNan, kNan);
  expect(kF16, 65504, 65504);
  expect(kF16, 65520.0, kInf);
  expect(kF8E5M2, kInf, kInf);
  expect(kF8E4M3FN, kNan, kNan);
  expect(kF8E4M3FN, 448, 448);
  expect(kS64, std::numeric_limits<int64_t>::min(), -0x1p63);
  expect(kS8, -128, -128);
  expect(kU64, 0x8000000000000000u >> 1, 0x1p62);
  expect(kPred, true, 1);
  expect(kPred, 0, 0);
  expect(kS32, 3.0, 3);
  for (ElementType element : {kF32, kF64, kBF16, kF16}) {
    p.expect(p.b.lowest(element), {-kInf}, "lowest");
    p.expect(p.b.highest(element), {kInf}, "highest");
  }
  p.expect(p.b.highest(kS32), {2147483647}, "highest i32");
  p.expect(p.b.lowest(kS32), {-2147483648.0}, "lowest i32");
  p.expect(p.b.lowest(kS64), {-0x1p63}, "lowest i64");
  p.expect(p.b.highest(kU8), {255}, "highest u8");
  p.expect(p.b.lowest(kU8), {0}, "lowest u8");
  p.expect(p.b.shift_right_logical(p.b.highest(kU64), 60), {15}, "highest u64");
  p.expect(p.b.identity(Reducer::kAnd, kS32), {-1}, "identity of and");
  p.expect_complex(p.b.scalar(kC64, std::complex<double>(1.5, -kInf)), {{1.5, -kInf}}, "c64");
  p.expect(p.b.list(kS32, {3, -1, 2}), {3, -1, 2}, "list");
  p.expect(p.b.real_list(kF64, {0.1, kInf}), {0.1, kInf}, "real list");
  p.expect(p.b.iota({kF32, {2, 3}}, 1), {0, 1, 2, 0, 1, 2}, "iota");
  p.expect(p.b.filled({kS64, {2, 2}}, 9), {9, 9, 9, 9}, "filled");
  p.expect(p.b.zeros({kF32, {0}}), {}, "empty");
  p.run(client());
}

}  // namespace
}  // namespace torch_pjrt::graph
