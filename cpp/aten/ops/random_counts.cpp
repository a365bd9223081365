#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/rejection.h"
#include "graph/held_element.h"

// Poisson and binomial distributions. Those with a small mean add probabilities up to a uniform
// number; the others are Hormann's transformed rejection (PTRS and BTRS), with a probability as a
// saddle point has it, which does not cancel in float32.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::OperandList;

constexpr double kLargeMean = 10;

// Where `wanted`, the least count whose cumulative probability reaches a uniform number: `first` is
// the probability of 0, and `ratio(k)` that of k beside that of k - 1. For means up to kLargeMean.
template <typename Ratio>
Operand count_by_inversion(Emission& e, Operand wanted, Operand first, ElementType element,
                           const Ratio& ratio) {
  const bool wide = element == ElementType::kF64;
  const auto counts = [&](Builder& b, OperandList) {
    RandomNumbers numbers(e, first.dimensions(), wide ? 2 : 1);
    Operand u = wide
                    ? numbers.open_uniform(element)
                    : b.multiply(b.add(b.convert(numbers.bits32(), first.element()), 0.5), 0x1p-32);
    // What is beyond is less probable than the least u.
    const int most = wide ? 46 : 36;
    Operand probability = first, sum = first, count = b.zeros_like(first);
    for (int k = 1; k <= most; ++k) {
      count = b.select(b.greater(u, sum), k, count);
      probability = b.multiply(probability, ratio(k));
      sum = b.add(sum, probability);
    }
    return Operands{b.convert(count, element)};
  };
  Builder& b = e.builder();
  const auto none = [&](Builder& b, OperandList) {
    return Operands{b.zeros({element, first.dimensions()})};
  };
  return b.if_else(any(b, wanted), counts, none)[0];
}

// A whole number k in probabilities: k! = sqrt(2 pi k) k^k exp(rest - k), with sqrt(2 pi k) in
// `root`; for 0 the root is 1.
struct Factorial {
  Operand rest, root;

  Factorial(Builder& b, Operand k) {
    const Operand safe = b.maximum(k, 1), inverse = b.divide(1, safe), square = b.square(inverse);
    rest = b.filled_like(k, 1.0 / 1188);  // Stirling's series, exact from 4 on
    for (double c : {-1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12}) {
      rest = b.add(b.multiply(rest, square), c);
    }
    rest = b.multiply(rest, inverse);
    for (int i = 3; i >= 0; --i) {
      const double exact =
          i == 0 ? 0 : std::lgamma(i + 1.0) - i * std::log(i) + i - std::log(2 * kPi * i) / 2;
      rest = b.select(b.less_equal(k, i), exact, rest);
    }
    root = b.select(b.less(k, 1), 1, b.multiply(b.sqrt(safe), std::sqrt(2 * kPi)));
  }

  static constexpr double kPi = std::numbers::pi;
};

// k log(k / mean) + mean - k
Operand deviance(Builder& b, Operand k, Operand mean) {
  const Operand safe = b.maximum(k, 1);
  const Operand m = b.divide(b.subtract(mean, k), safe);
  // -log(1 + m) + m near 0, where the difference cancels
  const int terms = k.element() == ElementType::kF64 ? 12 : 7;
  Operand series = b.zeros_like(m);
  for (int i = terms; i >= 2; --i) series = b.add(b.multiply(series, m), (i % 2 ? -1.0 : 1.0) / i);
  series = b.multiply(series, b.square(m));
  const Operand ratio = b.select(b.less(b.abs(m), 0.05), series, b.subtract(m, b.log(b.add(m, 1))));
  return b.select(b.greater(k, 0), b.multiply(k, ratio), mean);
}

// Hormann's hat over counts: `width`, `slope` and `centre` are parameters of each element.
struct Proposal {
  Operand v, hat, count;

  Proposal(Builder& b, RandomNumbers& numbers, Operand width, Operand slope, Operand centre) {
    const Operand u = b.subtract(numbers.open_uniform(width.element()), 0.5);
    v = numbers.open_uniform(width.element());
    const Operand part = b.divide(slope, b.subtract(0.5, b.abs(u)));
    hat = b.add(b.divide(part, b.subtract(0.5, b.abs(u))), width);
    count = b.floor(b.add(b.multiply(b.add(b.multiply(part, 2), width), u), centre));
  }
};

// operand: the rates
constexpr Operator kPoisson{
    "aten::poisson", [](Emission& e) {
      Builder& b = e.builder();
      const ElementType element = random_element(e.operand(2).element());
      const int each = element == ElementType::kF64 ? 2 : 1;
      const Operand rate = b.convert(e.operand(2), element);
      const Operand wide = b.convert(rate, graph::held(ElementType::kF64));
      const Operand small =
          count_by_inversion(e, b.less(rate, kLargeMean), b.exponential(b.negate(wide)), element,
                             [&](int k) { return b.multiply(wide, 1.0 / k); });

      const Operand is_large = b.bit_and(b.greater_equal(rate, kLargeMean), b.is_finite(rate));
      const Operand large = draw_until_accepted(
          e, is_large, rate, 2 * each,
          [&](Builder& b) { return Operands{b.maximum(rate, kLargeMean)}; },
          [](Builder& b, RandomNumbers& numbers, OperandList p) {
            const Operand mean = p[0];
            const Operand width = b.add(b.multiply(b.sqrt(mean), 2.53), 0.931);
            const Operand slope = b.add(b.multiply(width, 0.02483), -0.059);
            const Operand inverse_alpha = b.add(b.divide(1.1328, b.subtract(width, 3.4)), 1.1239);
            const Proposal proposal(b, numbers, width, slope, b.add(mean, 0.43));
            const Operand k = b.maximum(proposal.count, 0);
            const Factorial factorial(b, k);
            const Operand chance =
                b.exponential(b.negate(b.add(deviance(b, k, mean), factorial.rest)));
            const Operand height =
                b.multiply(b.multiply(proposal.v, inverse_alpha), factorial.root);
            const Operand below = b.less_equal(height, b.multiply(proposal.hat, chance));
            return std::pair(k, b.bit_and(below, b.greater_equal(proposal.count, 0)));
          });
      const Operand counted = b.select(b.less(rate, kLargeMean), small, large);
      finish(e, b.select(b.greater(rate, 0), counted, b.abs(rate)));
    }};

constexpr Operator kNoRate{
    "poisson: invalid Poisson rate, expected rate to be non-negative; got another; check the rates",
    [](Emission& e) {
      Builder& b = e.builder();
      const Operand valid = b.greater_equal(e.operand(0), 0);  // not so for NaN
      e.result(any(b, b.bit_not(valid)));
    }};

at::Tensor poisson(const at::Tensor& self, std::optional<at::Generator> generator) {
  check_implemented(self.is_floating_point(), kPoisson, self.scalar_type());
  check_never(kNoRate, self);
  Record record(kPoisson);
  record.on(executor_of(self));
  take_random(record, self, generator, self.numel(), 2 * random_words(self.scalar_type()));
  return record.tensor(self).result(self.scalar_type(), self.sizes());
}

// How probable k of n are, without factors of n alone.
struct Binomial {
  Operand n, mean, failures;

  struct Probability {
    Operand numerator, denominator;
  };

  Binomial(Builder& b, Operand n, Operand p)
      : n(n), mean(b.multiply(n, p)), failures(b.multiply(n, b.subtract(1, p))) {}

  Probability probability(Builder& b, Operand k) const {
    const Operand misses = b.subtract(n, k);
    const Factorial hit(b, k), missed(b, misses);
    const Operand far = b.add(deviance(b, k, mean), deviance(b, misses, failures));
    const Operand rest = b.add(far, b.add(hit.rest, missed.rest));
    return {b.exponential(b.negate(rest)), b.multiply(hit.root, b.divide(missed.root, n))};
  }
};

// operands: trials, probability
constexpr Operator kBinomial{
    "aten::binomial", [](Emission& e) {
      Builder& b = e.builder();
      const graph::Type& type = e.result_type();
      const ElementType element = random_element(type.element);
      const int each = element == ElementType::kF64 ? 2 : 1;
      const Operand trials = b.broadcast_to(b.convert(e.operand(2), element), type.dimensions);
      const Operand chance = b.broadcast_to(b.convert(e.operand(3), element), type.dimensions);
      const Operand mirrored = b.greater(chance, 0.5);
      const Operand p = b.select(mirrored, b.subtract(1, chance), chance);
      const Operand wanted =
          b.bit_and(b.bit_and(b.greater(trials, 0), b.is_finite(trials)), b.greater(p, 0));
      const Operand is_large = b.greater_equal(b.multiply(trials, p), kLargeMean);
      const auto wide = [&](Operand x) { return b.convert(x, graph::held(ElementType::kF64)); };
      const Operand whole = b.floor(wide(trials)), odds = b.divide(wide(p), b.subtract(1, wide(p)));
      const Operand none = b.exponential(b.multiply(whole, b.log_plus_one(b.negate(wide(p)))));
      const Operand is_small = b.bit_and(wanted, b.bit_not(is_large));
      Operand small = count_by_inversion(e, is_small, none, element, [&](int k) {
        const Operand left = b.maximum(b.subtract(whole, k - 1), 0);
        return b.multiply(b.multiply(left, 1.0 / k), odds);
      });
      small = b.select(wanted, b.minimum(small, trials), 0);

      const Operand large = draw_until_accepted(
          e, b.bit_and(wanted, is_large), b.zeros_like(trials), 2 * each,
          [&](Builder& b) {
            const Operand n = b.maximum(trials, 2 * kLargeMean);
            const Binomial law(b, n, p);
            const Operand k = b.floor(b.multiply(b.add(n, 1), p));
            const Binomial::Probability peak = law.probability(b, k);
            return Operands{n, p, b.divide(peak.numerator, peak.denominator)};
          },
          [](Builder& b, RandomNumbers& numbers, OperandList given) {
            const Operand n = given[0], p = given[1], peak = given[2];
            const Binomial law(b, n, p);
            const Operand deviation = b.sqrt(b.multiply(law.mean, b.subtract(1, p)));
            const Operand width = b.add(b.multiply(deviation, 2.53), 1.15);
            const Operand slope =
                b.add(b.add(b.multiply(width, 0.0248), b.multiply(p, 0.01)), -0.0873);
            const Operand alpha = b.multiply(b.add(b.divide(5.1, width), 2.83), deviation);
            const Proposal proposal(b, numbers, width, slope, b.add(law.mean, 0.5));
            const Operand k = b.minimum(b.maximum(proposal.count, 0), n);
            const Binomial::Probability own = law.probability(b, k);
            const Operand scale = b.multiply(b.multiply(alpha, peak), own.denominator);
            const Operand below = b.less_equal(b.multiply(proposal.v, scale),
                                               b.multiply(proposal.hat, own.numerator));
            return std::pair(k, b.bit_and(below, b.equal(k, proposal.count)));
          });
      Operand successes = b.select(is_large, large, small);
      successes = b.select(mirrored, b.subtract(trials, successes), successes);
      successes = b.select(b.greater_equal(chance, 1), trials, successes);
      const Operand never = b.bit_or(b.less_equal(trials, 0), b.less_equal(chance, 0));
      successes = b.select(b.is_nan(chance), b.filled_like(chance, NAN), successes);
      finish(e, b.select(never, b.zeros_like(trials), successes));
    }};

at::Tensor binomial(const at::Tensor& trials, const at::Tensor& chance,
                    std::optional<at::Generator> generator) {
  const c10::ScalarType dtype = trials.scalar_type();
  TORCH_CHECK_VALUE(trials.is_floating_point(),
                    "binomial only supports floating-point dtypes for count, got: ", dtype);
  TORCH_CHECK_VALUE(
      chance.is_floating_point(),
      "binomial only supports floating-point dtypes for prob, got: ", chance.scalar_type());
  TORCH_CHECK(dtype == chance.scalar_type(), "Found dtype ", chance.scalar_type(), " but expected ",
              dtype);
  check_implemented(dtype == at::kFloat || dtype == at::kDouble, kBinomial, dtype);
  const c10::DimVector sizes = broadcast_sizes(trials, chance);
  Record record(kBinomial);
  record.on(executor_of({trials, chance}));
  take_random(record, trials.device().is_xla() ? trials : chance, generator,
              c10::multiply_integers(sizes), 2 * random_words(dtype));
  return record.tensor(trials).tensor(chance).result(dtype, sizes);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("poisson", TORCH_FN(poisson));
  m.impl("binomial", TORCH_FN(binomial));
}

}  // namespace
}  // namespace torch_pjrt::aten
