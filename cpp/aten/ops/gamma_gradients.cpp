#include <torch/library.h>

#include <cmath>
#include <limits>
#include <span>

#include "aten/ops/elementwise.h"
#include "graph/held_element.h"

// How a gamma or beta distributed number moves with its shape while its quantile stays:
// -(d cdf / d shape) / pdf, by the same expansions as the cpu and in float64 for every dtype.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// An operand in formulas.
struct Real {
  Operand x;

  Builder& b() const { return *x.builder; }
};
// What stands beside a Real: another one, or a number.
struct Part {
  graph::Term term;
  Part(Real y) : term(y.x) {}
  Part(double y) : term(y) {}
};
Builder& builder_of(const Part& p, const Part& q) {
  return *(p.term.is_operand() ? p : q).term.operand().builder;
}
Real operator+(Part p, Part q) { return {builder_of(p, q).add(p.term, q.term)}; }
Real operator-(Part p, Part q) { return {builder_of(p, q).subtract(p.term, q.term)}; }
Real operator*(Part p, Part q) { return {builder_of(p, q).multiply(p.term, q.term)}; }
Real operator/(Part p, Part q) { return {builder_of(p, q).divide(p.term, q.term)}; }
Real operator-(Real p) { return {p.b().negate(p.x)}; }

Real log(Real p) { return {p.b().log(p.x)}; }
Real exp(Real p) { return {p.b().exponential(p.x)}; }
Real sqrt(Real p) { return {p.b().sqrt(p.x)}; }
Real pow(Real p, Real q) { return {p.b().power(p.x, q.x)}; }
Real digamma(Real p) {
  const Operand value = p.b().digamma(p.x);
  return {p.b().select(p.b().equal(p.x, 0), INFINITY, value)};
}
Real choose(Operand flag, Real yes, Real no) { return {yes.b().select(flag, yes.x, no.x)}; }
Real without_nan(Real p) { return choose(p.b().is_nan(p.x), Real{p.b().zeros_like(p.x)}, p); }

// Lowest power first.
Real polynomial(Real x, std::span<const double> coefficients) {
  Real sum{x.b().filled_like(x.x, coefficients.back())};
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = coefficients[i] + x * sum;
  return sum;
}

// Taylor's series of the cdf for small x.
Real gamma_of_small(Real a, Real x) {
  Real term{x.b().ones_like(x.x)}, place = a;
  Real sum = 1 / a, of_square = 1 / (a * a);
  for (int i = 1; i <= 5; ++i) {
    term = term * (-x / i);
    place = place + 1;
    sum = sum + term / place;
    of_square = of_square + term / (place * place);
  }
  const Real power = pow(x, a), pdf = pow(x, a - 1) * exp(-x);
  const Real slope = (log(x) - digamma(a)) * (power * sum) - power * of_square;
  return without_nan(-slope / pdf);
}

// Rice's saddle point for large shapes, and its value near x = a, where it cancels.
Real gamma_of_large(Real a, Real x) {
  Builder& b = a.b();
  const Real aa = a * a;
  const Real numerator = 1440 * aa + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * (107 + 3600 * x);
  const Real middle = (1 + 24 * a * (1 + 12 * a)) * numerator / (1244160 * aa * aa);
  const Operand near =
      b.bit_and(b.less_equal((double{0.9f} * a).x, x.x), b.less_equal(x.x, (double{1.1f} * a).x));
  const Real root = sqrt(8 * a), distance = a - x, logarithm = log(x / a);
  const Real first = root / distance;
  const Real base = x - a - a * logarithm;
  const Real second = 1 / (base * sqrt(base));
  const Real both = choose(b.less(x.x, a.x), first - second, first + second);
  const Real term = logarithm * both - sqrt(2 / a) * (a + x) / (distance * distance);
  const Real stirling = 1 + 1 / (12 * a) * (1 + 1 / (24 * a));
  return choose(near, middle, -stirling * (x * term) / root);
}

// A rational approximation in log(x / a) and log(a).
Real gamma_between(Real a, Real x) {
  constexpr double kNumerator[4][3] = {{0.16009398, 0.53487893, 0.040121004},
                                       {-0.094634809, 0.1298071, -0.0065914022},
                                       {0.025146376, 0.065735949, -0.0026286047},
                                       {-0.0030648343, -0.0015649758, -0.0013441777}};
  constexpr double kDenominator[4][3] = {{1, 0.16639465, 0.017050642},
                                         {0.32668115, 0.020070113, -0.0021309326},
                                         {0.10406089, -0.0035938915, 0.00085092367},
                                         {0.0014179084, -0.00058392623, -1.5247877e-07}};
  const Real u = log(x / a), v = log(a);
  const auto sum = [&](const double (&of)[4][3]) {
    Real total = polynomial(u, of[3]);
    for (int i = 2; i >= 0; --i) total = polynomial(u, of[i]) + v * total;
    return total;
  };
  return exp(sum(kNumerator) / sum(kDenominator));
}

Operand widened(Builder& b, Operand x) { return b.convert(x, graph::held(ElementType::kF64)); }

constexpr Operator kGammaGrad{
    "aten::_standard_gamma_grad", map<[](Builder& b, Operand shape, Operand sample) {
      const Real a{widened(b, shape)}, x{widened(b, sample)};
      const Real rest = choose(b.greater(a.x, 8), gamma_of_large(a, x), gamma_between(a, x));
      return choose(b.less(x.x, double{0.8f}), gamma_of_small(a, x), rest).x;
    }>};

// Taylor's series for x near 0, of the first shape.
Real beta_near_zero(Real x, Real alpha, Real beta) {
  const Real factor = digamma(alpha) - digamma(alpha + beta) - log(x);
  Real term{x.b().ones_like(x.x)};
  Real sum = 1 / alpha * (factor + 1 / alpha);
  for (int i = 1; i <= 10; ++i) {
    term = term * ((i - beta) * x / i);
    const Real place = alpha + i;
    sum = sum + term / place * (factor + 1 / place);
  }
  return without_nan(x * pow(1 - x, -beta) * sum);
}

// The same of the second shape.
Real second_beta_near_zero(Real x, Real alpha, Real beta) {
  Builder& b = x.b();
  const Real factor = digamma(alpha + beta) - digamma(beta);
  Real term{b.ones_like(x.x)}, product = term, slope{b.zeros_like(x.x)};
  Real sum = factor / alpha;
  for (int i = 1; i <= 8; ++i) {
    term = term * (-x / i);
    slope = slope * (beta - i) + product;
    product = product * (beta - i);
    sum = sum + term / (alpha + i) * (slope + factor * product);
  }
  return without_nan(-pow(1 - x, 1 - beta) * sum);
}

// Rice's saddle point for two large shapes, and its value near the mean, where it cancels.
Real beta_of_large(Real x, Real alpha, Real beta) {
  Builder& b = x.b();
  const Real total = alpha + beta, mean = alpha / total, y = 1 - x;
  const Real deviation = sqrt(alpha * beta / (total + 1)) / total;
  const Operand near = b.bit_and(b.less_equal((mean - 0.1 * deviation).x, x.x),
                                 b.less_equal(x.x, (mean + 0.1 * deviation).x));
  const Real bb = beta * beta, bbb = bb * beta;
  Real sum = 8 * y * (135 * beta - 11);
  sum = (453 + 1620 * beta * y - 455 * x) * beta + alpha * sum;
  sum = 3 * (59 + 180 * beta - 90 * x) * bb + alpha * sum;
  sum = (43 + 20 * (16 + 27 * beta) * x) * bbb + alpha * sum;
  sum = 47 * x * bb * bb + alpha * sum;
  const Real scale = (1 + 12 * alpha) * (1 + 12 * beta) / (total * total);
  const Real middle = scale / y * sum / (12960 * alpha * alpha * alpha * bb * (1 + 12 * total));

  const auto stirling = [](Real s) { return 1 + 1 / (12 * s) + 1 / (288 * s * s); };
  const Real correction = stirling(alpha) * stirling(beta) / stirling(total);
  const Real distance = beta * x - alpha * y;
  const Real first = -(2 * alpha * alpha * y + alpha * beta * y + x * bb) /
                     (sqrt(2 * alpha / beta) * (total * sqrt(total)) * distance * distance);
  const Real log_first = log(alpha / (total * x)), log_second = log(beta / (total * y));
  const Real base = beta * log_second + alpha * log_first;
  const Real last = 1 / (base * sqrt(base));
  const Real signed_last = choose(b.less(x.x, mean.x), last, -last);
  const Real third = sqrt(8 * alpha * beta / total) / distance;
  const Real terms = first + 0.5 * log_first * (third + signed_last);
  return choose(near, middle, correction * (-x / sqrt(2 * alpha * beta / total)) * terms);
}

// A rational correction, in log(x), log(alpha / x) and the rest of log(total), of what holds for
// small x.
Real beta_between(Real x, Real alpha, Real total) {
  constexpr double kNumerator[3][3][4] = {
      {{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
       {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
       {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
      {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
       {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
       {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
      {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
       {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
       {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}};
  constexpr double kDenominator[3][3][4] = {
      {{1, -0.02924021934, -0.04438342661, 0.007285809825},
       {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
       {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
      {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
       {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
       {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
      {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
       {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
       {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}};
  const Real u = log(x), a = log(alpha) - u, rest = log(total) - a;
  const auto sum = [&](const double (&of)[3][3][4]) {
    const auto row = [&](int i) {
      return polynomial(rest, of[i][0]) +
             a * (polynomial(rest, of[i][1]) + a * polynomial(rest, of[i][2]));
    };
    return row(0) + u * (row(1) + u * row(2));
  };
  const Real small = x * (digamma(total) - digamma(alpha)) / (total - alpha);
  return sum(kNumerator) / sum(kDenominator) * small;
}

constexpr Operator kDirichletGrad{
    "aten::_dirichlet_grad", map<[](Builder& b, Operand sample, Operand shape, Operand sum) {
      // Which expansion it is follows from numbers rounded to the dtype, as on the cpu.
      const Operand other = b.subtract(sum, shape);
      const Operand spread = b.multiply(b.multiply(sum, sample), b.subtract(1, sample));
      const Operand near_zero = b.bit_and(b.less_equal(sample, 0.5), b.less(spread, 2.5));
      const Operand near_one = b.bit_and(b.greater_equal(sample, 0.5), b.less(spread, 0.75));
      const Operand large = b.bit_and(b.greater(shape, 6), b.greater(other, 6));
      const Real x{widened(b, sample)}, alpha{widened(b, shape)}, total{widened(b, sum)};
      const Real beta{widened(b, other)};
      Real y = choose(large, beta_of_large(x, alpha, total - alpha), beta_between(x, alpha, total));
      y = choose(near_one, -second_beta_near_zero(1 - x, beta, alpha), y);
      return choose(near_zero, beta_near_zero(x, alpha, beta), y).x;
    }>};

// Of the first tensor's sizes, to which the others are broadcast.
template <const Operator& op>
at::Tensor gradient(at::ArrayRef<at::Tensor> tensors) {
  const at::Tensor& first = tensors[0];
  const c10::ScalarType dtype = first.scalar_type();
  check_implemented(dtype == at::kFloat || dtype == at::kDouble, op, dtype);
  Record record(op);
  for (const at::Tensor& t : tensors) {
    TORCH_CHECK(t.scalar_type() == dtype, "Found dtype ", t.scalar_type(), " but expected ", dtype);
    record.tensor(t.expand(first.sizes()));
  }
  return record.result(dtype, first.sizes());
}

at::Tensor gamma_grad(const at::Tensor& shape, const at::Tensor& sample) {
  return gradient<kGammaGrad>({shape, sample});
}

at::Tensor dirichlet_grad(const at::Tensor& sample, const at::Tensor& shape,
                          const at::Tensor& total) {
  return gradient<kDirichletGrad>({sample, shape, total});
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_standard_gamma_grad", TORCH_FN(gamma_grad));
  m.impl("_dirichlet_grad", TORCH_FN(dirichlet_grad));
}

}  // namespace
}  // namespace torch_pjrt::aten
