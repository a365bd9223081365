#pragma once

#include <utility>

#include "aten/any.h"
#include "aten/ops/random_bits.h"

namespace torch_pjrt::aten {

// Draws for all elements at once, and again while some of those `wanted` were refused.
// `draw(builder, numbers)` gives {value, accepted}; each attempt has `words` words an element.
template <typename Draw>
Operand draw_until_accepted(Emission& e, Operand wanted, Operand otherwise, int words,
                            const Draw& draw) {
  StableHloBuilder& b = e.builder();
  // attempt, those still open, values
  const graph::Operands end = b.while_loop(
      {b.scalar(graph::ElementType::kU64, 1), wanted, otherwise},
      [](StableHloBuilder& b, graph::OperandList s) { return graph::Operands{any(b, s[1])}; },
      [&](StableHloBuilder& b, graph::OperandList s) {
        RandomNumbers numbers(e, s[1].dimensions(), words, s[0]);
        const auto [value, accepted] = draw(b, numbers);
        return graph::Operands{b.add(s[0], 1), b.bit_and(s[1], b.bit_not(accepted)),
                               b.select(b.bit_and(s[1], accepted), value, s[2])};
      });
  return end[2];
}

// How many steps of random length stay within `limit`, where `wanted`; else 0.
// `step(builder, numbers)` gives lengths greater than 0.
template <typename Step>
Operand count_steps(Emission& e, Operand wanted, Operand limit, int words, const Step& step) {
  StableHloBuilder& b = e.builder();
  // attempt, those still open, place, count
  const graph::Operands end = b.while_loop(
      {b.scalar(graph::ElementType::kU64, 1), wanted, b.zeros_like(limit), b.zeros_like(limit)},
      [](StableHloBuilder& b, graph::OperandList s) { return graph::Operands{any(b, s[1])}; },
      [&](StableHloBuilder& b, graph::OperandList s) {
        RandomNumbers numbers(e, s[1].dimensions(), words, s[0]);
        const Operand place = b.add(s[2], step(b, numbers));
        const Operand open = b.bit_and(s[1], b.less_equal(place, limit));
        return graph::Operands{b.add(s[0], 1), open, place, b.select(open, b.add(s[3], 1), s[3])};
      });
  return end[3];
}

}  // namespace torch_pjrt::aten
