#include <torch/library.h>

#include <cmath>
#include <numbers>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/ops/elementwise.h"
#include "aten/ops/log_ratio.h"
#include "aten/ops/rejection.h"

// Poisson and binomial distributions. Those with a small mean count the steps of a random walk;
// the others are Hormann's transformed rejection (PTRS and BTRS), with the logarithm of a
// probability as a saddle point has it, which does not cancel in float32.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

constexpr double kLargeMean = 10;

// log(k!) - (k log(k) - k) for whole k
Operand factorial_rest(Builder& b, Operand k) {
  constexpr int kExact = 10;
  double exact[kExact] = {0};
  for (int i = 1; i < kExact; ++i) exact[i] = std::lgamma(i + 1.0) - i * std::log(i) + i;
  const Operand place = b.convert(b.clamp(0, k, kExact - 1), ElementType::kS32);
  const Operand small = b.take(b.real_list(k.element(), exact), place, 0);
  const Operand large = b.maximum(k, kExact);
  const Operand inverse = b.divide(1, large), square = b.square(inverse);
  const Operand series =
      b.add(b.multiply(b.subtract(b.divide(square, 1260), 1.0 / 360), square), 1.0 / 12);
  const Operand root = b.multiply(b.log(b.multiply(large, 2 * std::numbers::pi)), 0.5);
  return b.select(b.less(k, kExact), small, b.add(root, b.multiply(series, inverse)));
}

// k log(k / mean) + mean - k
Operand deviance(Builder& b, Operand k, Operand mean) {
  const Operand safe = b.maximum(k, 1);
  const Operand ratio = log_ratio(b, b.divide(b.subtract(mean, k), safe));
  return b.select(b.greater(k, 0), b.negate(b.multiply(k, ratio)), mean);
}

// operand: the rates
constexpr Operator kPoisson{
    "aten::poisson", [](Emission& e) {
      Builder& b = e.builder();
      const ElementType element = random_element(e.operand(2).element());
      const int each = element == ElementType::kF64 ? 2 : 1;
      const Operand rate = b.convert(e.operand(2), element);
      const Operand is_large = b.bit_and(b.greater_equal(rate, kLargeMean), b.is_finite(rate));
      const Operand small = count_steps(
          e, b.bit_and(b.greater(rate, 0), b.less(rate, kLargeMean)), rate, 2 * each,
          [&](Builder&, RandomNumbers& numbers) { return numbers.exponential(element); });
      const Operand mean = b.maximum(rate, kLargeMean);
      const Operand width = b.add(b.multiply(b.sqrt(mean), 2.53), 0.931);
      const Operand slope = b.add(b.multiply(width, 0.02483), -0.059);
      const Operand inverse_alpha = b.add(b.divide(1.1328, b.subtract(width, 3.4)), 1.1239);
      const Operand box = b.subtract(0.9277, b.divide(3.6224, b.subtract(width, 2)));
      const Operand large =
          draw_until_accepted(e, is_large, rate, 2 * each, [&](Builder& b, RandomNumbers& numbers) {
            const Operand u = b.subtract(numbers.open_uniform(element), 0.5);
            const Operand v = numbers.open_uniform(element);
            const Operand us = b.subtract(0.5, b.abs(u));
            const Operand x = b.multiply(b.add(b.divide(b.multiply(slope, 2), us), width), u);
            const Operand k = b.floor(b.add(x, b.add(mean, 0.43)));
            const Operand surely = b.bit_and(b.greater_equal(us, 0.07), b.less_equal(v, box));
            const Operand possible = b.bit_and(
                b.greater_equal(k, 0), b.bit_not(b.bit_and(b.less(us, 0.013), b.greater(v, us))));
            const Operand hat = b.add(b.divide(slope, b.square(us)), width);
            const Operand height = b.log(b.divide(b.multiply(v, inverse_alpha), hat));
            const Operand whole = b.maximum(k, 0);
            const Operand chance =
                b.negate(b.add(deviance(b, whole, mean), factorial_rest(b, whole)));
            return std::pair(k,
                             b.bit_or(surely, b.bit_and(possible, b.less_equal(height, chance))));
          });
      finish(e, b.select(b.less(rate, kLargeMean), small, large));
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
      const Operand mean = b.multiply(trials, p);
      const Operand is_large = b.greater_equal(mean, kLargeMean);
      // Successes come after geometric numbers of trials.
      const Operand rate = b.negate(b.log_plus_one(b.negate(p)));
      const Operand small =
          count_steps(e, b.bit_and(wanted, b.bit_not(is_large)), trials, 2 * each,
                      [&](Builder& b, RandomNumbers& numbers) {
                        return b.maximum(b.ceil(b.divide(numbers.exponential(element), rate)), 1);
                      });

      const Operand n = b.maximum(trials, 2 * kLargeMean);
      const Operand q = b.subtract(1, p), failures = b.multiply(n, q);
      const Operand deviation = b.sqrt(b.multiply(mean, q));
      const Operand width = b.add(b.multiply(deviation, 2.53), 1.15);
      const Operand slope = b.add(b.add(b.multiply(width, 0.0248), b.multiply(p, 0.01)), -0.0873);
      const Operand centre = b.add(mean, 0.5);
      const Operand box = b.subtract(0.92, b.divide(4.2, width));
      const Operand alpha = b.multiply(b.add(b.divide(5.1, width), 2.83), deviation);
      const auto log_probability = [&](Builder& b, Operand k) {
        const Operand misses = b.subtract(n, k);
        const Operand far = b.add(deviance(b, k, mean), deviance(b, misses, failures));
        return b.negate(b.add(far, b.add(factorial_rest(b, k), factorial_rest(b, misses))));
      };
      const Operand peak = log_probability(b, b.floor(b.multiply(b.add(n, 1), p)));
      const Operand large = draw_until_accepted(
          e, b.bit_and(wanted, is_large), b.zeros_like(n), 2 * each,
          [&](Builder& b, RandomNumbers& numbers) {
            const Operand u = b.subtract(numbers.open_uniform(element), 0.5);
            const Operand v = numbers.open_uniform(element);
            const Operand us = b.subtract(0.5, b.abs(u));
            const Operand x = b.multiply(b.add(b.divide(b.multiply(slope, 2), us), width), u);
            const Operand k = b.floor(b.add(x, centre));
            const Operand possible = b.bit_and(b.greater_equal(k, 0), b.less_equal(k, n));
            const Operand surely = b.bit_and(b.greater_equal(us, 0.07), b.less_equal(v, box));
            const Operand hat = b.add(b.divide(slope, b.square(us)), width);
            const Operand height = b.log(b.divide(b.multiply(v, alpha), hat));
            const Operand whole = b.minimum(b.maximum(k, 0), n);
            const Operand ratio = b.subtract(log_probability(b, whole), peak);
            return std::pair(k, b.bit_and(possible, b.bit_or(surely, b.less_equal(height, ratio))));
          });
      Operand successes = b.select(is_large, large, small);
      successes = b.select(mirrored, b.subtract(trials, successes), successes);
      successes = b.select(b.greater_equal(chance, 1), trials, successes);
      const Operand none = b.bit_or(b.less_equal(trials, 0), b.less_equal(chance, 0));
      successes = b.select(b.is_nan(chance), b.filled_like(chance, NAN), successes);
      finish(e, b.select(none, b.zeros_like(trials), successes));
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
