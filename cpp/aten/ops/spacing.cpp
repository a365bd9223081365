#include "aten/ops/spacing.h"

#include "aten/ops/rounding.h"
#include "graph/held_element.h"

namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// x * count + base with one rounding, as the cpu's fused instruction has it.
Operand fused(Builder& b, Operand x, Operand count, Operand base) {
  const ElementType wide = graph::held(ElementType::kF64);
  const auto widened = [&](Operand y) { return b.convert(y, wide); };
  if (x.element() != ElementType::kF64 || wide != ElementType::kF64) {
    const Operand product = b.multiply(widened(x), widened(count));
    return b.convert(b.add(product, widened(base)), x.element());
  }
  // Halves of x whose products with counts up to 2^26 are exact, and what the sum of the greater
  // one loses.
  const Operand bits = b.bitcast_convert(x, ElementType::kU64);
  const Operand high = b.bitcast_convert(b.bit_and(bits, ~uint64_t{0x7ffffff}), wide);
  const Operand times = widened(count), large = b.multiply(high, times);
  const Operand small = b.multiply(b.subtract(x, high), times);
  const Operand sum = b.add(base, large), part = b.subtract(sum, base);
  const Operand lost = b.add(b.subtract(base, b.subtract(sum, part)), b.subtract(large, part));
  const Operand correction = b.add(lost, small);
  return b.add(sum, b.select(b.is_finite(correction), correction, 0));  // NaN beside an infinity
}

}  // namespace

Operand evenly_spaced(Builder& b, Operand start, Operand end, Operand intervals, int64_t steps,
                      ElementType element) {
  const ElementType working = compute_type(element);
  const auto rounded = [&](Operand x) { return rounded_to(b, b.convert(x, working), element); };
  const graph::Dimensions sizes{steps};
  const auto spread = [&](Operand x) { return b.broadcast_to(x, sizes); };
  start = rounded(start);
  end = rounded(end);
  if (steps == 1) return spread(start);
  const Operand step = rounded(b.divide(rounded(b.subtract(end, start)), rounded(intervals)));
  const Operand place = b.iota({graph::held(ElementType::kS64), sizes}, 0);
  const Operand is_first = b.less(place, steps / 2);
  const Operand count = b.select(is_first, place, b.subtract(steps - 1, place));
  const Operand base = b.select(is_first, spread(start), spread(end));
  const Operand signed_step = b.select(is_first, spread(step), spread(b.negate(step)));
  if (element == working && !pjrt::is_complex(element)) return fused(b, signed_step, count, base);
  return rounded(b.add(base, rounded(b.multiply(signed_step, rounded(count)))));
}

}  // namespace torch_pjrt::aten
