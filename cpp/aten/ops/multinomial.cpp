#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/generator.h"
#include "aten/ops/random_bits.h"
#include "aten/ops/search.h"
#include "graph/held_element.h"

// Drawing categories by their weights.
namespace torch_pjrt::aten {
namespace {

using graph::ElementType;

// 0 when every weight is a finite number >= 0 and every row has a positive one; else 1 or 2.
constexpr Operator kFault{
    "aten::multinomial.check", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand x = e.operand(0);
      const Operand valid = b.bit_and(
          b.greater_equal(x, 0), b.less(x, b.broadcast_to(b.highest(x.element()), x.dimensions())));
      const Operand all = b.reduce(valid, graph::Reducer::kAnd, graph::all_dims(x));
      const Operand some = b.reduce(b.greater(x, 0), graph::Reducer::kOr, {-1});
      const Operand every = some.rank() ? b.reduce(some, graph::Reducer::kAnd, {0}) : some;
      const ElementType s64 = graph::held(graph::ElementType::kS64);
      e.result(b.select(b.bit_not(all), b.scalar(s64, 1),
                        b.select(every, b.scalar(s64, 0), b.scalar(s64, 2))));
    }};

// Without replacement: the least of exponential numbers, each divided by its weight, is one draw,
// the next one the second...
constexpr Operator kDistinct{
    "aten::multinomial.distinct", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand weights = e.operand(2);
      const ElementType element = random_element(weights.element());
      RandomNumbers numbers(e, weights.dimensions(), element == ElementType::kF64 ? 2 : 1);
      const Operand score = b.divide(b.convert(weights, element), numbers.exponential(element));
      const int64_t count = e.result_type().dimensions.back();
      if (count == 1)
        return e.result(b.argmax(score, -1, graph::held(graph::ElementType::kS64), true).second);
      const Operand order = b.sort_with_indices(score, -1, /*descending=*/true).second;
      e.result(b.slice_dim(order, -1, 0, count));
    }};

// With replacement: where uniform numbers fall in the running sum of the weights.
constexpr Operator kRepeated{
    "aten::multinomial.repeated", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const ElementType element = random_element(e.operand(2).element());
      const bool wide = element == ElementType::kF64;
      Operand weights = b.convert(e.operand(2), element);
      RandomNumbers numbers(e, type.dimensions, wide ? 2 : 1);
      Operand u = numbers.uniform(element, wide ? 53 : 24);
      const int64_t categories = weights.dimension(-1);
      weights = b.reshape(weights, {-1, categories});
      u = b.reshape(u, {weights.dimension(0), -1});
      const Operand sums = b.cumulative(weights, 1, graph::Reducer::kAdd);
      const Operand total =
          b.broadcast_to(b.slice_dim(sums, 1, categories - 1, categories), u.dimensions());
      // A product that rounds up to the total would fall behind the last category.
      const Operand place = b.multiply(u, total);
      const Operand inside = b.select(b.less(place, total), place, b.zeros_like(place));
      const Operand found = emit_search(b, sums, inside, /*right=*/true);
      e.result(b.reshape(b.convert(found, type.element), type.dimensions));
    }};

at::Tensor multinomial(const at::Tensor& self, int64_t count, bool replacement,
                       std::optional<at::Generator> generator) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || count <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TORCH_CHECK(self.size(-1) <= (1 << 24), "number of categories cannot exceed 2^24");
  c10::DimVector sizes(self.sizes());
  sizes.back() = count;
  if (self.numel() == 0) return at::empty(sizes, self.options().dtype(at::kLong));
  const int64_t fault = Record(kFault).tensor(self).result(at::kLong, {}).item<int64_t>();
  TORCH_CHECK(fault != 1, "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(fault != 2, "invalid multinomial distribution (sum of probabilities <= 0)");
  const bool repeated = replacement && count > 1;
  Record record(repeated ? kRepeated : kDistinct);
  record.on(executor_of(self));
  take_random(record, self, generator, repeated ? c10::multiply_integers(sizes) : self.numel(),
              random_words(self.scalar_type()));
  return record.tensor(self).result(at::kLong, sizes);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("multinomial", TORCH_FN(multinomial)); }

}  // namespace
}  // namespace torch_pjrt::aten
