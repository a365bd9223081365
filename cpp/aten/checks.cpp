#include "aten/checks.h"

#include "aten/any.h"
#include "aten/config.h"

namespace torch_pjrt::aten {
namespace {

// attribute: size
constexpr Operator kOutOfBounds{
    "torch_pjrt::index_out_of_bounds", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand index = e.operand(0);
      const Operand outside =
          b.bit_or(b.less(index, 0), b.greater_equal(index, e.attributes.integer()));
      if (index.rank() < 2) {
        return e.result(any(b, outside));
      }
      // XLA CPU shares the rows among its threads, but not a reduction to one element.
      graph::Dimensions inner = graph::all_dims(index);
      inner.erase(0);
      const Operand rows =
          b.convert(b.reduce(outside, graph::Reducer::kOr, inner), graph::ElementType::kS32);
      e.result(b.greater(b.reduce(rows, graph::Reducer::kMaximum, {0}), 0));
    }};

void add_check(const Operator& condition, const at::Tensor& tensor, graph::Attributes attributes,
               const Operator& complaint) {
  if (!config().check_indices || tensor.numel() == 0 || !tensor.device().is_xla()) return;
  graph::Executor& executor = executor_of(tensor);
  const graph::Value value = value_of(tensor, executor);
  executor.add_check({{graph::Node::operation(condition, {&value, 1}, std::move(attributes),
                                              graph::Type{graph::ElementType::kPred, {}}),
                       0},
                      &complaint});
}

}  // namespace

void check_never(const Operator& condition, const at::Tensor& tensor) {
  add_check(condition, tensor, {}, condition);
}

void check_index_bounds(const Operator& complaint, const at::Tensor& index, int64_t size) {
  add_check(kOutOfBounds, index, graph::Attributes::of(size), complaint);
}

}  // namespace torch_pjrt::aten
