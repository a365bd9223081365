#include <torch/library.h>

#include "aten/ops/reduce.h"

// softmax, log_softmax and their gradients.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// Softmax of a number is softmax over one element.
Operand operand(Emission& e, size_t i) {
  Builder& b = e.builder();
  const Operand x = b.convert(e.operand(i), compute_type(e.result_type().element));
  return x.rank() == 0 ? b.reshape(x, {1}) : x;
}

void set_result(Emission& e, Operand x) {
  finish(e, e.builder().reshape(x, e.result_type().dimensions));
}

// attribute: dim
constexpr Operator kSoftmax{
    "aten::_softmax",
    [](Emission& e) { set_result(e, e.builder().softmax(operand(e, 0), e.attributes.integer())); }};
constexpr Operator kLogSoftmax{
    "aten::_log_softmax", [](Emission& e) {
      set_result(e, e.builder().log_softmax(operand(e, 0), e.attributes.integer()));
    }};

Operand sum(Builder& b, Operand x, int64_t dim) {
  return b.broadcast_to(b.reduce(x, graph::Reducer::kAdd, {dim}, true), x.dimensions());
}

// operands: gradient, result
constexpr Operator kSoftmaxBackward{
    "aten::_softmax_backward_data", [](Emission& e) {
      Builder& b = e.builder();
      const Operand grad = operand(e, 0), y = operand(e, 1);
      const Operand product = b.multiply(grad, y);
      set_result(e, b.subtract(product, b.multiply(y, sum(b, product, e.attributes.integer()))));
    }};
constexpr Operator kLogSoftmaxBackward{
    "aten::_log_softmax_backward_data", [](Emission& e) {
      Builder& b = e.builder();
      const Operand grad = operand(e, 0), y = operand(e, 1);
      const Operand total = sum(b, grad, e.attributes.integer());
      set_result(e, b.subtract(grad, b.multiply(b.exponential(y), total)));
    }};

template <const Operator& op>
at::Tensor forward(const at::Tensor& self, int64_t dim, bool half_to_float) {
  TORCH_CHECK(!half_to_float || self.scalar_type() == at::kHalf,
              "conversion is supported for Half type only");
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"", op.name.substr(7),
                              "_lastdim_kernel_impl\" not implemented for '", self.scalar_type(),
                              "'");
  return Record(op)
      .tensor(self)
      .attribute(at::maybe_wrap_dim(dim, self.dim()))
      .result(half_to_float ? at::kFloat : self.scalar_type(), self.sizes());
}

template <const Operator& op>
at::Tensor backward(const at::Tensor& grad, const at::Tensor& output, int64_t dim,
                    c10::ScalarType input_dtype) {
  TORCH_CHECK(grad.sizes() == output.sizes(), "expected gradient and output of equal sizes, got ",
              grad.sizes(), " and ", output.sizes());
  return Record(op)
      .tensor(grad)
      .tensor(output)
      .attribute(at::maybe_wrap_dim(dim, grad.dim()))
      .result(input_dtype, grad.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_softmax", TORCH_FN(forward<kSoftmax>));
  m.impl("_log_softmax", TORCH_FN(forward<kLogSoftmax>));
  m.impl("_softmax_backward_data", TORCH_FN(backward<kSoftmaxBackward>));
  m.impl("_log_softmax_backward_data", TORCH_FN(backward<kLogSoftmaxBackward>));
}

}  // namespace
}  // namespace torch_pjrt::aten
