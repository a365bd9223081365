#include "graph/program_test_support.h"

namespace torch_pjrt::graph {
namespace {

class StableHloLinearAlgebra : public OnEachPlugin {};
ON_EACH_PLUGIN(StableHloLinearAlgebra);

// [batch, n, k] x [batch, k, m]
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& c, int batch,
                            int n, int k, int m) {
  std::vector<double> out;
  for (int i = 0; i < batch * n; ++i) {
    for (int j = 0; j < m; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += a[i * k + l] * c[(i / n * k + l) * m + j];
      out.push_back(sum);
    }
  }
  return out;
}

TEST_P(StableHloLinearAlgebra, Products) {
  TestedProgram p;
  const std::vector<double> left = counting(24, -5), right = counting(40, 3, -0.5);
  const Operand a = p.input({kF32, {2, 3, 4}}, left), c = p.input({kF32, {2, 4, 5}}, right);
  p.expect_type(p.b.dot_general(a, c, {{0}, {0}, {2}, {1}}), kF32, {2, 3, 5});
  p.expect(p.b.dot_general(a, c, {{0}, {0}, {2}, {1}}), product(left, right, 2, 3, 4, 5), "dot");
  p.expect(p.b.matmul(a, c), product(left, right, 2, 3, 4, 5), "matmul");
  const Operand matrix = p.b.select_index(c, 0, 0);
  const std::vector<double> first(right.begin(), right.begin() + 20);
  p.expect_type(p.b.matmul(a, matrix), kF32, {2, 3, 5});
  p.expect(p.b.matmul(a, matrix), product(left, first, 1, 6, 4, 5), "batch x matrix");
  const Operand vector = p.b.select_index(matrix, 1, 0);
  p.expect_type(p.b.matmul(a, vector), kF32, {2, 3});
  p.expect_type(p.b.matmul(vector, c), kF32, {2, 5});
  p.expect_type(p.b.matmul(vector, vector), kF32, {});
  p.expect_type(p.b.matmul(p.b.unsqueeze(a, 1), c), kF32, {2, 2, 3, 5});
  p.expect(
      p.b.matmul(p.b.select_index(a, 0, 0), c),
      [&] {
        std::vector<double> twice(left.begin(), left.begin() + 12);
        twice.insert(twice.end(), left.begin(), left.begin() + 12);
        return product(twice, right, 2, 3, 4, 5);
      }(),
      "matrix x batch");
  const Operand wide =
      p.b.dot_general(p.b.convert(a, kBF16), p.b.convert(c, kBF16), {{0}, {0}, {2}, {1}}, kF32);
  p.expect_type(wide, kF32, {2, 3, 5});
  p.expect(wide, product(left, right, 2, 3, 4, 5), "bf16 to f32", 1e-6);
  p.b.set_precision(StableHloBuilder::Precision::kHighest);
  p.expect(p.b.matmul(a, c), product(left, right, 2, 3, 4, 5), "highest precision");
  p.expect(p.b.matmul(p.vector(kS64, {1, 2}), p.vector(kS64, {3, 4})), {11}, "integers");
  p.run(client());
}

TEST_P(StableHloLinearAlgebra, CholeskyAndTriangularSolve) {
  TestedProgram p;
  // L = [[2,0],[1,3]], A = L L^T
  const Operand a = p.input({kF64, {2, 2}}, {4, 2, 2, 10});
  const Operand l = p.input({kF64, {2, 2}}, {2, 0, 1, 3});
  p.expect(p.b.select(p.b.not_equal(l, 0), p.b.cholesky(a), 0.0), {2, 0, 1, 3}, "cholesky", 1e-12);
  const Operand right = p.input({kF64, {2, 1}}, {4, 11});
  p.expect(p.b.triangular_solve(l, right, true, true, false), {2, 3}, "solve", 1e-12);
  using Form = StableHloBuilder::TriangularForm;
  // L^T x = (7, 9): x2 = 3, x1 = (7 - 3) / 2
  p.expect(
      p.b.triangular_solve(l, p.input({kF64, {2, 1}}, {7, 9}), true, true, false, Form::kTranspose),
      {2, 3}, "transposed", 1e-12);
  // x L = (7, 9): x2 = 3, x1 = (7 - 3) / 2
  p.expect(p.b.triangular_solve(l, p.input({kF64, {1, 2}}, {7, 9}), false, true, false), {2, 3},
           "right side", 1e-12);
  p.expect(p.b.triangular_solve(l, right, true, true, true), {4, 7}, "unit diagonal", 1e-12);
  p.run(client());
}

TEST_P(StableHloLinearAlgebra, Fourier) {
  TestedProgram p;
  using C = std::complex<double>;
  const std::vector<C> values{{1, 0}, {2, -1}, {0, 3}, {-1, 1}};
  std::vector<C> wanted;
  for (int k = 0; k < 4; ++k) {
    C sum = 0;
    for (int n = 0; n < 4; ++n) sum += values[n] * std::polar(1.0, -2 * M_PI * k * n / 4);
    wanted.push_back(sum);
  }
  const Operand z = p.complex_vector(values);
  const Operand forward = p.b.fft(z, FftType::kForward, {4});
  p.expect_complex(forward, wanted, "fft", 1e-6);
  p.expect_complex(p.b.fft(forward, FftType::kInverse, {4}), values, "ifft", 1e-6);
  const Operand x = p.input({kF32, {2, 3}}, counting(6));
  const Operand half = p.b.fft(x, FftType::kRealForward, {3});
  p.expect_type(half, kC64, {2, 2});
  p.expect(p.b.real(half), {3, -1.5, 12, -1.5}, "rfft", 1e-6);
  p.expect(p.b.fft(half, FftType::kRealInverse, {3}), counting(6), "irfft", 1e-6);
  p.run(client());
}

// Direct convolution of [N, C, H, W] with [O, C/groups, h, w].
std::vector<double> convolved(const std::vector<double>& x, const std::vector<double>& w, int n,
                              int c, int h, int o, int k, int stride, int pad, int dilation,
                              int groups) {
  const int out = (h + 2 * pad - (dilation * (k - 1) + 1)) / stride + 1;
  const int per_group = c / groups;
  std::vector<double> y;
  for (int in = 0; in < n; ++in) {
    for (int io = 0; io < o; ++io) {
      for (int i = 0; i < out; ++i) {
        for (int j = 0; j < out; ++j) {
          double sum = 0;
          for (int ic = 0; ic < per_group; ++ic) {
            const int channel = io / (o / groups) * per_group + ic;
            for (int a = 0; a < k; ++a) {
              for (int b = 0; b < k; ++b) {
                const int row = i * stride + a * dilation - pad;
                const int column = j * stride + b * dilation - pad;
                if (row < 0 || column < 0 || row >= h || column >= h) continue;
                sum += x[((in * c + channel) * h + row) * h + column] *
                       w[((io * per_group + ic) * k + a) * k + b];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

TEST_P(StableHloLinearAlgebra, Convolution) {
  TestedProgram p;
  const std::vector<double> input = counting(2 * 4 * 5 * 5, -20, 0.25);
  const std::vector<double> kernel = counting(6 * 4 * 3 * 3, -3, 0.125);
  const Operand x = p.input({kF32, {2, 4, 5, 5}}, input);
  const Operand w = p.input({kF32, {6, 4, 3, 3}}, kernel);
  Window window;
  window.strides = {2, 2};
  window.padding = {{1, 1}, {1, 1}};
  const Operand y = p.b.convolution(x, w, window, convolution_dimensions(2));
  p.expect_type(y, kF32, {2, 6, 3, 3});
  p.expect(y, convolved(input, kernel, 2, 4, 5, 6, 3, 2, 1, 1, 1), "strided", 1e-5);
  Window dilated;
  dilated.window_dilations = {2, 2};
  p.expect(p.b.convolution(x, w, dilated, convolution_dimensions(2)),
           convolved(input, kernel, 2, 4, 5, 6, 3, 1, 0, 2, 1), "dilated", 1e-5);
  const Operand grouped = p.b.slice_dim(w, 1, 0, 2);
  std::vector<double> group_kernel;
  for (int o = 0; o < 6; ++o) {
    for (int i = 0; i < 18; ++i) group_kernel.push_back(kernel[o * 36 + i]);
  }
  p.expect(p.b.convolution(x, grouped, {}, convolution_dimensions(2), 2),
           convolved(input, group_kernel, 2, 4, 5, 6, 3, 1, 0, 1, 2), "grouped", 1e-5);
  // One dimension, reversed kernel, dilated input: a transposed convolution.
  ConvolutionDimensions one = convolution_dimensions(1);
  Window transposed;
  transposed.base_dilations = {2};
  transposed.padding = {{2, 2}};
  transposed.reversal = {1};
  p.expect(p.b.convolution(p.input({kF32, {1, 1, 2}}, {1, 10}),
                           p.input({kF32, {1, 1, 3}}, {1, 2, 3}), transposed, one),
           {1, 2, 13, 20, 30}, "transposed");
  // The kernel's gradient pattern: features and batch swap parts.
  const Operand gradient = p.b.convolution(x, y,
                                           [] {
                                             Window g;
                                             g.window_dilations = {2, 2};
                                             g.padding = {{1, 1}, {1, 1}};
                                             return g;
                                           }(),
                                           {1, 0, {2, 3}, 1, 0, {2, 3}, 1, 0, {2, 3}});
  p.expect_type(gradient, kF32, {6, 4, 3, 3});
  p.run(client());
}

}  // namespace
}  // namespace torch_pjrt::graph
