#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "graph/stablehlo_builder.h"
#include "pjrt/compile_options.h"
#include "transfer/transfer_test_support.h"

namespace torch_pjrt::graph {

using enum pjrt::ElementType;
using transfer::OnEachPlugin;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A program under test: inputs with values, and outputs with the values expected of them. All
// outputs are computed by one executable, so that a test compiles once on each plugin.
class TestedProgram {
 public:
  StableHloBuilder b;

  Operand input(Type type, const std::vector<double>& values) {
    EXPECT_EQ(static_cast<size_t>(type.element_count()), values.size());
    // Values travel as f64 and i64, which hold every value the tests use.
    const bool floating = pjrt::is_floating(type.element);
    const Type carrier{floating ? ElementType::kF64 : ElementType::kS64, type.dimensions};
    std::vector<char> bytes(values.size() * 8);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto integer = static_cast<int64_t>(values[i]);
      std::memcpy(bytes.data() + 8 * i, floating ? static_cast<const void*>(&values[i]) : &integer,
                  8);
    }
    inputs_.push_back({carrier, std::move(bytes)});
    return b.convert(b.parameter(carrier), type.element);
  }
  Operand vector(ElementType element, const std::vector<double>& values) {
    return input({element, {static_cast<int64_t>(values.size())}}, values);
  }
  Operand complex_vector(const std::vector<std::complex<double>>& values) {
    std::vector<double> real, imaginary;
    for (const auto& v : values) {
      real.push_back(v.real());
      imaginary.push_back(v.imag());
    }
    return b.complex(vector(ElementType::kF64, real), vector(ElementType::kF64, imaginary));
  }

  // A NaN is expected where the value is a NaN. The tolerance is relative, with 1 as least scale.
  void expect(Operand x, const std::vector<double>& values, const std::string& name,
              double tolerance = 0) {
    const bool floating = pjrt::is_floating(x.element());
    outputs_.push_back(b.convert(x, floating ? ElementType::kF64 : ElementType::kS64));
    expected_.push_back({name, values, tolerance, floating});
  }
  void expect_complex(Operand x, const std::vector<std::complex<double>>& values,
                      const std::string& name, double tolerance = 0) {
    ASSERT_TRUE(pjrt::is_complex(x.element()));
    std::vector<double> real, imaginary;
    for (const auto& v : values) {
      real.push_back(v.real());
      imaginary.push_back(v.imag());
    }
    expect(b.real(x), real, name + " (real)", tolerance);
    expect(b.imag(x), imaginary, name + " (imaginary)", tolerance);
  }
  void expect_type(Operand x, ElementType element, const Dimensions& dimensions) {
    EXPECT_EQ(to_string(x.type()), to_string(Type{element, dimensions}));
  }

  void run(pjrt::Client& client) {
    const std::string text = b.finish(outputs_);
    pjrt::CompileOptions options;
    options.overrides["xla_cpu_enable_fast_min_max"] = false;  // else maximum(1, NaN) is 1
    pjrt::LoadedExecutable program;
    try {
      program = client.compile(text, "mlir", options.serialize());
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\n" << text;
    }
    std::vector<pjrt::Buffer> arguments, results;
    std::vector<PJRT_Buffer*> pointers;
    for (const Input& in : inputs_) {
      pjrt::HostArray source;
      source.data = in.bytes.data();
      source.type = in.type.element;
      source.dimensions = in.type.dimensions;
      source.device = client.addressable_devices()[0];
      arguments.push_back(client.buffer_from_host(source).buffer);
      pointers.push_back(arguments.back().get());
    }
    program.execute(pointers, {}, results);
    ASSERT_EQ(results.size(), expected_.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const Expected& want = expected_[i];
      std::vector<char> bytes(want.values.size() * 8);
      const auto dims = results[i].dimensions();
      int64_t count = 1;
      for (int64_t d : dims) count *= d;
      ASSERT_EQ(static_cast<size_t>(count), want.values.size()) << want.name;
      results[i].copy_to_host(bytes.data(), bytes.size()).await();
      for (size_t j = 0; j < want.values.size(); ++j) {
        double got = 0;
        int64_t integer = 0;
        std::memcpy(want.floating ? static_cast<void*>(&got) : &integer, bytes.data() + 8 * j, 8);
        if (!want.floating) got = static_cast<double>(integer);
        check(want, j, got);
      }
    }
  }

 private:
  struct Input {
    Type type;
    std::vector<char> bytes;
  };
  struct Expected {
    std::string name;
    std::vector<double> values;
    double tolerance;
    bool floating;
  };

  static void check(const Expected& want, size_t place, double got) {
    const double value = want.values[place];
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(got)) << want.name << " [" << place << "] is " << got;
    } else if (std::isinf(value) || want.tolerance == 0) {
      EXPECT_EQ(got, value) << want.name << " [" << place << "]";
      EXPECT_EQ(std::signbit(got), want.floating ? std::signbit(value) : value < 0)
          << want.name << " [" << place << "]";
    } else {
      EXPECT_NEAR(got, value, want.tolerance * std::max(1.0, std::abs(value)))
          << want.name << " [" << place << "]";
    }
  }

  std::vector<Input> inputs_;
  Operands outputs_;
  std::vector<Expected> expected_;
};

inline std::vector<double> mapped(const std::vector<double>& x,
                                  const std::function<double(double)>& f) {
  std::vector<double> y;
  for (double v : x) y.push_back(f(v));
  return y;
}

inline std::vector<double> mapped(const std::vector<double>& x, const std::vector<double>& y,
                                  const std::function<double(double, double)>& f) {
  std::vector<double> z;
  for (size_t i = 0; i < x.size(); ++i) z.push_back(f(x[i], y[i]));
  return z;
}

// 0, 1, 2, ... as test data.
inline std::vector<double> counting(int64_t count, double start = 0, double step = 1) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(start + step * static_cast<double>(i));
  return values;
}

}  // namespace torch_pjrt::graph
