#include <ATen/core/Reduction.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "aten/ops/elementwise.h"
#include "graph/held_element.h"

// Negative log likelihood of the target classes: [N, C], [C], or [N, C, H, W].
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Reducer;

// operands: input or gradient, target, weight (optional)
// attributes: whether there is a weight, reduction, ignored class
struct Loss {
  int64_t class_dim;
  Operand target;  // with a class dimension of size 1, ignored ones 0
  Operand weight;  // of each target, 0 where ignored; in the compute type
  int64_t reduction;

  // `input`: dimensions of the input; `element`: the compute type
  Loss(Emission& e, const graph::Dimensions& input, ElementType element, size_t weight_operand) {
    Builder& b = e.builder();
    const bool has_weight = e.attributes.boolean();
    reduction = e.attributes.integer();
    const int64_t ignored = e.attributes.integer();
    class_dim = input.size() == 1 ? 0 : 1;
    Operand all = b.convert(e.operand(1), graph::held(graph::ElementType::kS64));
    graph::Dimensions places = input;
    places[static_cast<size_t>(class_dim)] = 1;
    all = b.reshape(all, places);
    const Operand counts = b.not_equal(all, ignored);
    target = b.select(counts, all, 0);
    const Operand one = b.convert(counts, element);
    weight = one;
    if (has_weight) {
      const Operand each = b.take(b.convert(e.operand(weight_operand), element), target, 0);
      weight = b.select(counts, each, b.zeros_like(each));
    }
  }
};

constexpr Operator kForward{
    "aten::nll_loss_forward", [](Emission& e) {
      Builder& b = e.builder();
      const ElementType element = compute_type(e.operand(0).element());
      const Operand x = e.operand(0);
      const Loss loss(e, x.dimensions(), element, 2);
      const Operand picked = b.convert(b.gather_elements(x, loss.target, loss.class_dim), element);
      // An ignored class may hold inf, which 0 does not undo.
      const Operand none = b.equal(loss.weight, 0);
      const Operand losses =
          b.select(none, b.zeros_like(picked), b.negate(b.multiply(loss.weight, picked)));
      const graph::Type& type = e.result_type();
      if (loss.reduction == at::Reduction::None) {
        e.result(0, b.convert(b.reshape(losses, type.dimensions), type.element));
        return e.result(1, b.zeros(e.result_type(1)));
      }
      const auto sum = [&](Operand y) { return b.reduce(y, Reducer::kAdd, graph::all_dims(y)); };
      const Operand total = sum(loss.weight);
      Operand result = sum(losses);
      if (loss.reduction == at::Reduction::Mean) result = b.divide(result, total);
      e.result(0, b.convert(result, type.element));
      e.result(1, b.convert(total, type.element));
    }};

// operands: gradient, target, total weight, weight
constexpr Operator kBackward{
    "aten::nll_loss_backward", [](Emission& e) {
      Builder& b = e.builder();
      const graph::Type& type = e.result_type();
      const ElementType element = compute_type(type.element);
      const Loss loss(e, type.dimensions, element, 3);
      Operand grad = b.convert(e.operand(0), element);
      if (loss.reduction == at::Reduction::Mean) {
        grad = b.divide(grad, b.convert(e.operand(2), element));
      }
      const graph::Dimensions& places = loss.target.dimensions();
      grad = loss.reduction == at::Reduction::None ? b.reshape(grad, places)
                                                   : b.broadcast_to(grad, places);
      const Operand none = b.equal(loss.weight, 0);
      const Operand slope =
          b.select(none, b.zeros_like(grad), b.negate(b.multiply(grad, loss.weight)));
      const Operand classes =
          b.iota({graph::held(graph::ElementType::kS64), type.dimensions}, loss.class_dim);
      const Operand chosen = b.equal(classes, b.broadcast_to(loss.target, type.dimensions));
      const Operand all = b.broadcast_to(slope, type.dimensions);
      finish(e, b.select(chosen, all, b.zeros_like(all)));
    }};

void check(const at::Tensor& self, const at::Tensor& target,
           const std::optional<at::Tensor>& weight, bool planar) {
  if (planar) {
    TORCH_CHECK(target.dim() == 3,
                "only batches of spatial targets supported (3D tensors) but got targets of "
                "dimension: ",
                target.dim());
    TORCH_CHECK(self.dim() == 4,
                "only batches of spatial inputs supported (4D tensors), but got input of "
                "dimension: ",
                self.dim());
    TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
                    self.size(3) == target.size(2),
                "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  } else {
    TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "input tensor should be 1D or 2D");
    TORCH_CHECK(target.dim() <= 1, "0D or 1D target tensor expected, multi-target not supported");
    TORCH_CHECK(!(self.dim() == 1 && target.dim() == 1) || target.size(0) == 1,
                "For 1D input, 1D target must have size 1, but got target size: ",
                target.dim() ? target.size(0) : 1);
    TORCH_CHECK(self.dim() == 1 || (target.dim() == 1 && self.size(0) == target.size(0)),
                "size mismatch (got input: ", self.sizes(), ", target: ", target.sizes(), ")");
  }
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
              "expected scalar type Long or Byte but found ", target.scalar_type());
  const int64_t classes = self.size(self.dim() == 1 ? 0 : 1);
  if (!weight || !weight->defined()) return;
  TORCH_CHECK(weight->dim() == 1 && weight->numel() == classes,
              "weight tensor should be defined either for all ", classes,
              " classes or no classes but got weight tensor of shape: ", weight->sizes());
}

template <bool kPlanar>
std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& self, const at::Tensor& target,
                                           const std::optional<at::Tensor>& weight,
                                           int64_t reduction, int64_t ignored) {
  check(self, target, weight, kPlanar);
  const int64_t classes = self.size(self.dim() == 1 ? 0 : 1);
  const bool ignores_a_class = ignored >= 0 && ignored < classes;
  check_index_range(kForward,
                    ignores_a_class ? target : at::where(at::eq(target, ignored), 0, target),
                    classes, false);
  Record record(kForward);
  record.tensor(self).tensor(target).optional(weight).attribute(reduction).attribute(ignored);
  const c10::ScalarType dtype = self.scalar_type();
  const bool each = reduction == at::Reduction::None && self.dim() > 1;
  auto both = record.results(
      {{dtype, each ? target.sizes() : at::IntArrayRef()}, {dtype, at::IntArrayRef()}});
  return {both[0], both[1]};
}

template <bool kPlanar>
at::Tensor backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                    const std::optional<at::Tensor>& weight, int64_t reduction, int64_t ignored,
                    const at::Tensor& total_weight) {
  check(self, target, weight, kPlanar);
  return Record(kBackward)
      .tensor(grad)
      .tensor(target)
      .tensor(total_weight)
      .optional(weight)
      .attribute(reduction)
      .attribute(ignored)
      .result(self.scalar_type(), self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("nll_loss_forward", TORCH_FN(forward<false>));
  m.impl("nll_loss_backward", TORCH_FN(backward<false>));
  m.impl("nll_loss2d_forward", TORCH_FN(forward<true>));
  m.impl("nll_loss2d_backward", TORCH_FN(backward<true>));
}

}  // namespace
}  // namespace torch_pjrt::aten
