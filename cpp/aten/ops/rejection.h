#pragma once

#include <utility>

#include "aten/any.h"
#include "aten/ops/flag_order.h"
#include "aten/ops/random_bits.h"

namespace torch_pjrt::aten {

// Draws values until each element has an accepted one. All are drawn for at once; when few of many
// are left they are gathered, so that the last refusals cost little. An element's numbers are those
// of its place and attempt all the same. `draw(builder, numbers, parameters)` gives {value,
// accepted} for the elements whose parameters it is given; each attempt has `words` words an
// element.
template <typename Draw>
class Rejection {
 public:
  Rejection(Emission& e, int words, const Draw& draw) : e_(e), words_(words), draw_(draw) {}

  // `values` and the parameters are lists; values are -1 where one is wanted, and else NaN or not
  // less than 0. `place`: where the elements stand in the whole, if they are not all.
  Operand fill(Operand attempt, Operand values, Operand place,
               const graph::Operands& parameters) const {
    using graph::ElementType;
    using graph::OperandList;
    using graph::Operands;
    StableHloBuilder& b = e_.builder();
    const int64_t all = values.dimension(0), few = all / kShare;
    const bool is_last = few < kFew || all > kMost;
    const auto is_open = [](StableHloBuilder& b, Operand values) { return b.less(values, 0); };
    // attempt, how many are left, values
    const Operands end = b.while_loop(
        {attempt, b.scalar(ElementType::kF32, all), values},
        [&](StableHloBuilder& b, OperandList s) {
          return Operands{b.greater(s[1], is_last ? 0 : few)};
        },
        [&](StableHloBuilder& b, OperandList s) {
          // Nothing that follows from parameters alone leaves the loop: XLA CPU would keep an array
          // of each.
          Operands kept = parameters;
          kept.push_back(s[0]);
          kept = b.optimization_barrier(kept);
          RandomNumbers numbers(e_, s[2].dimensions(), words_, kept.back(), place);
          const auto [value, accepted] = draw_(b, numbers, OperandList(kept));
          // One array of state: XLA CPU would draw again for another one.
          const Operand next = b.select(is_open(b, s[2]), b.select(accepted, value, -1), s[2]);
          return Operands{b.add(s[0], 1), count(b, is_open(b, next)), next};
        });
    values = end[2];
    if (is_last) return values;
    const Operand open = is_open(b, values);
    const auto gathered = [&](StableHloBuilder& b, OperandList) {
      const Operand slot = b.select(open, count_before(b, open), all);
      const Operand from =
          b.scatter_elements(b.filled({ElementType::kS32, {few}}, all), slot,
                             b.iota(slot.type(), 0), 0, graph::Reducer::kOverwrite);
      Operands rest;
      for (const Operand& p : parameters) rest.push_back(b.take(p, from, 0));
      const Operand wanted = b.filled({values.element(), {few}}, -1);
      const Operand filled = fill(end[0], b.select(b.less(from, all), wanted, 0),
                                  place ? b.take(place, from, 0) : from, rest);
      return Operands{b.scatter_elements(values, from, filled, 0, graph::Reducer::kOverwrite)};
    };
    return b.if_else(b.greater(end[1], 0), gathered,
                     [&](StableHloBuilder&, OperandList) { return Operands{values}; })[0];
  }

 private:
  // Gathers when this share of the elements is left, unless that is less than a few.
  static constexpr int64_t kShare = 4, kFew = 16384, kMost = 1 << 24;

  Emission& e_;
  int words_;
  const Draw& draw_;
};

// The elements that are not `wanted` have `otherwise`. `parameters(builder)` gives arrays of
// wanted's sizes, from which the rest that an element's draws need is computed each time.
template <typename Parameters, typename Draw>
Operand draw_until_accepted(Emission& e, Operand wanted, Operand otherwise, int words,
                            const Parameters& parameters, const Draw& draw) {
  using graph::OperandList;
  using graph::Operands;
  const auto drawn = [&](StableHloBuilder& b, OperandList) {
    Operands flat = parameters(b);
    for (Operand& p : flat) p = b.flatten(p);
    const Operand values = b.flatten(b.select(wanted, -1, otherwise));
    const Operand first = b.scalar(graph::ElementType::kU64, 1);
    const Operand end = Rejection(e, words, draw).fill(first, values, {}, flat);
    return Operands{b.reshape(end, wanted.dimensions())};
  };
  StableHloBuilder& b = e.builder();
  return b.if_else(any(b, wanted), drawn,
                   [&](StableHloBuilder&, OperandList) { return Operands{otherwise}; })[0];
}

}  // namespace torch_pjrt::aten
