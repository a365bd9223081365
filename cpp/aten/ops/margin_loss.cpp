#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>
#include <torch/library.h>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/ops/elementwise.h"
#include "graph/held_element.h"

// Hinge losses over the classes of a row: every class that comes within a margin of the row's
// target counts. Rows of one dimension are batches of one.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Dimensions;
using graph::Reducer;

// [rows, classes]
Operand matrix(Builder& b, Operand x, bool is_batch) {
  if (is_batch) return x;
  return b.reshape(x, {1, -1});
}

// Sums each row's part of the loss, as PyTorch divides them: each by the classes first.
void reduce(Emission& e, Operand rows, int64_t classes, int64_t reduction) {
  Builder& b = e.builder();
  const graph::Type& type = e.result_type();
  rows = b.divide(rows, static_cast<double>(classes));
  if (reduction != at::Reduction::None) {
    const int64_t count = rows.dimension(0);
    rows = b.reduce(rows, Reducer::kAdd, {0});
    if (reduction == at::Reduction::Mean) rows = b.divide(rows, static_cast<double>(count));
  }
  e.result(0, b.reshape(rows, type.dimensions));
}

// The gradient of each row's sum over classes, as [rows, 1].
Operand row_gradient(Builder& b, Operand grad, int64_t rows, int64_t classes, int64_t reduction) {
  double scale = static_cast<double>(classes);
  if (reduction == at::Reduction::Mean) scale *= static_cast<double>(rows);
  const Dimensions column{rows, 1};
  grad = grad.rank() == 0 ? b.broadcast_to(grad, column) : b.reshape(grad, column);
  return b.divide(grad, scale);
}

// ---- one target a row ----

// operands: self, target, margin, weight (optional); attributes: whether there is a weight, whether
// there is a batch, p, reduction
struct OneTarget {
  Operand x, target;  // [rows, classes] and [rows, 1]
  Operand is_other;   // classes that are not the target
  Operand distance;   // how far each class is within the margin: the loss where positive
  Operand weight;     // of each row, if any
  int64_t p, reduction;

  OneTarget(Emission& e, size_t first) {
    Builder& b = e.builder();
    const bool has_weight = e.attributes.boolean(), is_batch = e.attributes.boolean();
    p = e.attributes.integer();
    reduction = e.attributes.integer();
    x = matrix(b, e.operand(first), is_batch);
    const int64_t rows = x.dimension(0);
    target = b.reshape(e.operand(first + 1), {rows, 1});
    const Operand classes = b.iota({graph::held(ElementType::kS64), x.dimensions()}, 1);
    is_other = b.not_equal(classes, b.broadcast_to(target, x.dimensions()));
    const Operand of_target = b.gather_elements(x, target, 1);
    const Operand margin = b.broadcast_to(e.operand(first + 2), of_target.dimensions());
    distance = b.add(b.broadcast_to(b.subtract(margin, of_target), x.dimensions()), x);
    if (has_weight) weight = b.take(b.flatten(e.operand(first + 3)), target, 0);
  }

  Operand weighted(Builder& b, Operand rows) const {
    return weight ? b.multiply(rows, b.broadcast_to(weight, rows.dimensions())) : rows;
  }

  // NaN does not count.
  Operand counts(Builder& b) const { return b.bit_and(is_other, b.greater(distance, 0)); }
};

constexpr Operator kMultiMargin{"aten::multi_margin_loss", [](Emission& e) {
                                  Builder& b = e.builder();
                                  const OneTarget t(e, 0);
                                  const Operand loss = t.p == 1 ? t.distance : b.square(t.distance);
                                  const Operand all = t.weighted(b, b.select(t.counts(b), loss, 0));
                                  reduce(e, b.reduce(all, Reducer::kAdd, {1}), t.x.dimension(1),
                                         t.reduction);
                                }};

constexpr Operator kMultiMarginBackward{
    "aten::multi_margin_loss_backward", [](Emission& e) {
      Builder& b = e.builder();
      const OneTarget t(e, 1);
      const Dimensions& sizes = t.x.dimensions();
      const Operand grad =
          t.weighted(b, row_gradient(b, e.operand(0), sizes[0], sizes[1], t.reduction));
      const Operand slope = t.p == 1 ? b.ones_like(t.x) : b.multiply(t.distance, 2);
      const Operand others =
          b.select(t.counts(b), b.multiply(slope, b.broadcast_to(grad, sizes)), 0);
      const Operand of_target = b.negate(b.reduce(others, Reducer::kAdd, {1}, true));
      e.result(b.reshape(b.select(t.is_other, others, b.broadcast_to(of_target, sizes)),
                         e.result_type().dimensions));
    }};

constexpr Operator kTargetOutOfRange{
    "multi_margin_loss: target out of range; got a class that the input has no column for; check "
    "the target",
    [](Emission&) {}};

void check_dtype(const char* kernel, const at::Tensor& self, const at::Tensor& target) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble,
                              "\"", kernel, "\" not implemented for '", self.scalar_type(), "'");
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ",
              target.scalar_type());
}

void check_same_dtype(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "expected scalar type ",
              self.scalar_type(), " but found ", other.scalar_type());
}

Record one_target_record(const Operator& op, const char* kernel,
                         std::initializer_list<at::Tensor> gradient, const at::Tensor& self,
                         const at::Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                         const std::optional<at::Tensor>& weight, int64_t reduction) {
  const int power = p.toInt();
  TORCH_CHECK(power == 1 || power == 2, "only p == 1 and p == 2 supported");
  int64_t rows = 0, classes = 0;
  at::native::multi_margin_loss_shape_check(rows, classes, self.dim(), self, target, weight);
  check_dtype(kernel, self, target);
  if (weight && weight->defined()) check_same_dtype(self, *weight);
  check_index_bounds(kTargetOutOfRange, target, classes);
  Record record(op);
  record.tensors(gradient).tensor(self).tensor(target).number(margin, self.scalar_type());
  record.optional(weight).attribute(self.dim() == 2).attribute(int64_t{power}).attribute(reduction);
  return record;
}

at::Tensor multi_margin_loss(const at::Tensor& self, const at::Tensor& target, const at::Scalar& p,
                             const at::Scalar& margin, const std::optional<at::Tensor>& weight,
                             int64_t reduction) {
  Record record = one_target_record(kMultiMargin, "multi_margin_loss_cpu_kernel", {}, self, target,
                                    p, margin, weight, reduction);
  const bool each = reduction == at::Reduction::None && target.dim() > 0;
  return record.result(self.scalar_type(), each ? target.sizes() : at::IntArrayRef());
}

at::Tensor multi_margin_loss_backward(const at::Tensor& grad, const at::Tensor& self,
                                      const at::Tensor& target, const at::Scalar& p,
                                      const at::Scalar& margin,
                                      const std::optional<at::Tensor>& weight, int64_t reduction) {
  check_same_dtype(self, grad);
  return one_target_record(kMultiMarginBackward, "multi_margin_loss_backward_cpu_kernel", {grad},
                           self, target, p, margin, weight, reduction)
      .result(self.scalar_type(), self.sizes());
}

// ---- many targets a row: those before the first -1 ----

// operands: self, target; attributes: whether there is a batch, reduction
struct ManyTargets {
  Operand x, target, named;  // [rows, classes]; `target` 0 where none is named
  int64_t reduction;

  ManyTargets(Emission& e, size_t first) {
    Builder& b = e.builder();
    const bool is_batch = e.attributes.boolean();
    reduction = e.attributes.integer();
    x = matrix(b, e.operand(first), is_batch);
    const Operand all = b.reshape(e.operand(first + 1), x.dimensions());
    const Operand least = b.cumulative(all, 1, Reducer::kMinimum);
    named = b.greater_equal(least, 0);
    target = b.select(named, all, 0);
  }

  // [rows, targets, classes]: how far each class is within the margin of each target, where it
  // counts; else 0. `is_target` has the element type of x.
  Operand distances(Builder& b, Operand is_target) const {
    const Dimensions sizes{x.dimension(0), x.dimension(1), x.dimension(1)};
    const Operand of_target = b.gather_elements(x, target, 1);
    const Operand distance = b.add(b.broadcast_in_dim(b.subtract(1, of_target), sizes, {0, 1}),
                                   b.broadcast_in_dim(x, sizes, {0, 2}));
    const Operand counts = b.bit_and(b.broadcast_in_dim(named, sizes, {0, 1}),
                                     b.broadcast_in_dim(b.equal(is_target, 0), sizes, {0, 2}));
    return b.select(b.bit_and(counts, b.greater(distance, 0)), distance, 0);
  }
};

constexpr Operator kMultilabel{
    "aten::multilabel_margin_loss_forward", [](Emission& e) {
      Builder& b = e.builder();
      const ManyTargets t(e, 0);
      const Operand is_target = b.scatter_elements(
          b.zeros_like(t.x), t.target, b.convert(t.named, t.x.element()), 1, Reducer::kMaximum);
      const Operand sums = b.reduce(t.distances(b, is_target), Reducer::kAdd, {1, 2});
      reduce(e, sums, t.x.dimension(1), t.reduction);
      e.result(1, b.reshape(is_target, e.result_type(1).dimensions));
    }};

// operands: gradient, self, target, is_target
constexpr Operator kMultilabelBackward{
    "aten::multilabel_margin_loss_backward", [](Emission& e) {
      Builder& b = e.builder();
      const ManyTargets t(e, 1);
      const Operand is_target = b.reshape(e.operand(3), t.x.dimensions());
      const Operand distances = t.distances(b, is_target);
      const Operand counts = b.convert(b.greater(distances, 0), t.x.element());
      // Every pair pushes its class down and its target up.
      const Operand pushed = b.reduce(counts, Reducer::kAdd, {1});
      const Operand pulled = b.negate(b.reduce(counts, Reducer::kAdd, {2}));
      const Operand slope = b.scatter_elements(pushed, t.target, pulled, 1, Reducer::kAdd);
      const Dimensions& sizes = t.x.dimensions();
      const Operand grad = row_gradient(b, e.operand(0), sizes[0], sizes[1], t.reduction);
      e.result(
          b.reshape(b.multiply(slope, b.broadcast_to(grad, sizes)), e.result_type().dimensions));
    }};

constexpr Operator kLabelOutOfRange{
    "multilabel_margin_loss: argument #2 'target' is out of range; got a class that the input has "
    "no column for; -1 ends a row's targets",
    [](Emission& e) {
      Builder& b = e.builder();
      const Operand target = e.operand(0);
      const int64_t classes = target.rank() ? target.dimension(-1) : 1;
      const Operand outside = b.bit_or(b.less(target, -1), b.greater_equal(target, classes));
      e.result(any(b, outside));
    }};

void check_labels(const char* kernel, const at::Tensor& self, const at::Tensor& target) {
  int64_t rows = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(rows, classes, self.dim(), self, target);
  check_dtype(kernel, self, target);
  check_never(kLabelOutOfRange, target);
}

std::tuple<at::Tensor, at::Tensor> multilabel_margin_loss(const at::Tensor& self,
                                                          const at::Tensor& target,
                                                          int64_t reduction) {
  check_labels("multilabel_margin_loss_forward_out_frame", self, target);
  const bool each = reduction == at::Reduction::None && target.dim() > 1;
  const c10::ScalarType dtype = self.scalar_type();
  const int64_t rows = each ? self.size(0) : 1;
  auto both = Record(kMultilabel)
                  .tensor(self)
                  .tensor(target)
                  .attribute(self.dim() == 2)
                  .attribute(reduction)
                  .results({{dtype, each ? at::IntArrayRef(rows) : at::IntArrayRef()},
                            {dtype, target.sizes()}});
  return {both[0], both[1]};
}

at::Tensor multilabel_margin_loss_backward(const at::Tensor& grad, const at::Tensor& self,
                                           const at::Tensor& target, int64_t reduction,
                                           const at::Tensor& is_target) {
  check_labels("multilabel_margin_loss_backward_out_frame", self, target);
  check_same_dtype(self, grad);
  check_same_dtype(self, is_target);
  TORCH_CHECK(is_target.sizes() == target.sizes(),
              "multilabel_margin_loss_backward: is_target has other sizes than target; got ",
              is_target.sizes(), ", expected ", target.sizes());
  return Record(kMultilabelBackward)
      .tensors({grad, self, target, is_target})
      .attribute(self.dim() == 2)
      .attribute(reduction)
      .result(self.scalar_type(), self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("multi_margin_loss", TORCH_FN(multi_margin_loss));
  m.impl("multi_margin_loss_backward", TORCH_FN(multi_margin_loss_backward));
  m.impl("multilabel_margin_loss_forward", TORCH_FN(multilabel_margin_loss));
  m.impl("multilabel_margin_loss_backward", TORCH_FN(multilabel_margin_loss_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
