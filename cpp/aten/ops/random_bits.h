#pragma once

#include <ATen/core/Generator.h>

#include "aten/record.h"

// Random numbers that depend on (seed, offset, position) alone, computed inside the program.
//
// The bits are Widynski's "Squares" counter-based generator with a key made from the seed: plain
// integer arithmetic that every compiler fuses into its consumer. On XLA CPU a million uniforms
// take 2 ms; rng_bit_generator takes 16 (Threefry) or 120 (Philox).
namespace torch_pjrt::aten {

// Adds two operands, seed and offset; takes `count` elements of `words` 32-bit words each from the
// generator of `target`'s device.
void take_random(Record& record, const at::Tensor& target,
                 const std::optional<at::Generator>& generator, int64_t count, int words);

// The numbers of one operator, of which seed and offset are operands 0 and 1. The functions may be
// called several times in all for as many words as were taken: each call uses the next ones.
class RandomNumbers {
 public:
  // `attempt`, a scalar ui64, chooses among streams over the same words: loops that draw until they
  // are content need no bound on what they take. `place`: which elements of the whole these are.
  RandomNumbers(Emission& e, const graph::Dimensions& sizes, int words, Operand attempt = {},
                Operand place = {});

  Operand bits32();
  Operand bits64();
  // In [0, 1) with that many random bits: f64 takes two words when bits > 32.
  Operand uniform(graph::ElementType element, int bits);
  // In (0, 1): f32 from one word, f64 from two.
  Operand open_uniform(graph::ElementType element);
  // Mean 0, deviation 1: f32 from one word (to 6.4 deviations), f64 from two (to 8.2).
  Operand normal(graph::ElementType element);
  // Mean 1, greater than 0.
  Operand exponential(graph::ElementType element);

 private:
  StableHloBuilder& b_;
  graph::Dimensions sizes_;
  int64_t words_;
  int64_t used_ = 0;
  Operand key_, first_, place_;
};

// The type that random numbers for `element` are computed in, and the words they take.
inline graph::ElementType random_element(graph::ElementType element) {
  return element == graph::ElementType::kF64 ? element : graph::ElementType::kF32;
}
inline int random_words(c10::ScalarType dtype) { return dtype == at::kDouble ? 2 : 1; }

}  // namespace torch_pjrt::aten
