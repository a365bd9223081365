#include <torch/library.h>

#include <cmath>
#include <limits>

#include "aten/ops/elementwise.h"
#include "aten/ops/log_ratio.h"
#include "aten/ops/rejection.h"

// Gamma and Dirichlet distributions.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// A gamma number is `scale * exp(logarithm)`: the logarithm of small shapes' numbers is far below
// what exp can give.
struct GammaNumbers {
  Operand scale, logarithm;
};

// Marsaglia and Tsang: the cube of a normal number, accepted in 19 of 20 cases; a shape below 1
// comes from the next one by a power of a uniform number.
GammaNumbers gamma_numbers(Emission& e, Operand shape, int words) {
  Builder& b = e.builder();
  const ElementType element = shape.element();
  const Operand is_small = b.less(shape, 1);
  RandomNumbers first(e, shape.dimensions(), words);
  const Operand power = b.divide(b.negate(first.exponential(element)), shape);
  const Operand d = b.subtract(b.select(is_small, b.add(shape, 1), shape), 1.0 / 3);
  const Operand cube = draw_until_accepted(
      e, b.greater_equal(shape, 0), b.filled_like(shape, NAN), words,
      [&](Builder&) { return Operands{d}; },
      [&](Builder& b, RandomNumbers& numbers, graph::OperandList parameters) {
        const Operand d = parameters[0], c = b.rsqrt(b.multiply(d, 9));
        const Operand x = numbers.normal(element), xx = b.square(x);
        const Operand u = numbers.open_uniform(element);
        const Operand t = b.multiply(c, x), y = b.add(t, 1);
        const Operand v = b.multiply(b.square(y), y);
        // 1 - v + log(v) without cancelling
        const Operand rest =
            b.subtract(b.multiply(log_ratio(b, t), 3), b.multiply(b.square(t), b.add(t, 3)));
        const Operand bound = b.add(b.multiply(xx, 0.5), b.multiply(d, rest));
        return std::pair(v, b.bit_and(b.greater(y, 0), b.less(b.log(u), bound)));
      });
  return {b.multiply(d, cube), b.select(is_small, power, b.zeros_like(power))};
}

// A sample is never 0.
double least_normal(ElementType element) {
  return element == ElementType::kF64 ? std::numeric_limits<double>::min()
                                      : double{std::numeric_limits<float>::min()};
}

struct Shapes {
  Operand shape;
  int words;

  explicit Shapes(Emission& e) {
    const ElementType element = random_element(e.operand(2).element());
    shape = e.builder().convert(e.operand(2), element);
    words = element == ElementType::kF64 ? 4 : 2;
  }
};

constexpr Operator kGamma{"aten::_standard_gamma", [](Emission& e) {
                            Builder& b = e.builder();
                            const Shapes s(e);
                            const GammaNumbers x = gamma_numbers(e, s.shape, s.words);
                            const Operand product = b.multiply(x.scale, b.exponential(x.logarithm));
                            finish(e, b.maximum(product, least_normal(e.result_type().element)));
                          }};

constexpr Operator kDirichlet{
    "aten::_sample_dirichlet", [](Emission& e) {
      Builder& b = e.builder();
      const Shapes s(e);
      const GammaNumbers x = gamma_numbers(e, s.shape, s.words);
      // Finite, so that shapes of 0 have equal shares.
      Operand logarithm = b.maximum(b.add(b.log(x.scale), x.logarithm),
                                    double{std::numeric_limits<float>::lowest()});
      if (logarithm.rank() == 0) logarithm = b.reshape(logarithm, {1});
      const Operand shares = b.softmax(logarithm, -1);
      const Operand inside =
          b.clamp(least_normal(e.result_type().element), shares, std::nextafter(1.0f, 0.0f));
      finish(e, b.reshape(inside, e.result_type().dimensions));
    }};

template <const Operator& op>
at::Tensor sample(const at::Tensor& shape, std::optional<at::Generator> generator) {
  const c10::ScalarType dtype = shape.scalar_type();
  check_implemented(dtype == at::kFloat || dtype == at::kDouble, op, dtype);
  Record record(op);
  record.on(executor_of(shape));
  take_random(record, shape, generator, shape.numel(), 2 * random_words(dtype));
  return record.tensor(shape).result(dtype, shape.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_standard_gamma", TORCH_FN(sample<kGamma>));
  m.impl("_sample_dirichlet", TORCH_FN(sample<kDirichlet>));
}

}  // namespace
}  // namespace torch_pjrt::aten
