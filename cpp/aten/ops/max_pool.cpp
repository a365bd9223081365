#include <torch/library.h>

#include "aten/ops/matmul.h"
#include "aten/ops/norm.h"
#include "aten/ops/pooling.h"
#include "graph/held_element.h"

// Maximum over windows, with the indices of the maxima in their plane.
namespace torch_pjrt::aten {
namespace {

using graph::Dimensions;
using graph::ElementType;

constexpr int64_t kMostTaps = 64;  // more are reduced by a window loop instead of one by one

int64_t spatial_stride(const Dimensions& input, size_t i) {
  int64_t stride = 1;
  for (size_t j = i + 1; j < input.size(); ++j) stride *= input[j];
  return stride;
}

// The index in its plane of the first element of every window, [planes, output...].
Operand window_starts(StableHloBuilder& b, const Pooling& p, int64_t planes) {
  Dimensions sizes{planes};
  sizes.append(p.output.data(), p.output.size());
  Operand sum;
  for (size_t i = 0; i < p.rank(); ++i) {
    const int64_t scale = spatial_stride(p.input, i);
    const Operand o = b.iota({ElementType::kS32, sizes}, static_cast<int64_t>(i) + 1);
    const Operand index = b.subtract(b.multiply(o, p.stride[i] * scale), p.padding[i] * scale);
    sum = sum ? b.add(sum, index) : index;
  }
  return sum;
}

int64_t tap_offset(const Pooling& p, int64_t tap) {
  const Dimensions at = p.place(tap);
  int64_t offset = 0;
  for (size_t i = 0; i < p.rank(); ++i) {
    offset += at[i] * p.dilation[i] * spatial_stride(p.input, i);
  }
  return offset;
}

// Tap by tap: elementwise, so it fuses.
std::pair<Operand, Operand> by_taps(StableHloBuilder& b, const Pooling& p, Operand x) {
  const bool floating = pjrt::is_floating(x.element());
  const Operand covered = p.covered(b, x, b.lowest(x.element()));
  Operand best = p.window_element(b, covered, 0);
  Operand offset = b.zeros({ElementType::kS32, best.dimensions()});
  for (int64_t tap = 1; tap < p.taps(); ++tap) {
    const Operand element = p.window_element(b, covered, tap);
    Operand better = b.greater(element, best);
    if (floating) better = b.bit_or(better, b.is_nan(element));
    best = b.select(better, element, best);
    offset = b.select(better, tap_offset(p, tap), offset);
  }
  const Operand index = b.add(window_starts(b, p, x.dimension(0)), offset);
  // A window of nothing but -inf may have chosen its padding.
  const int64_t size = spatial_stride(p.input, 0) * p.input[0];
  return {best, b.clamp(0, index, size - 1)};
}

std::pair<Operand, Operand> by_window(StableHloBuilder& b, const Pooling& p, Operand x) {
  graph::Window window{{1}, {1}, {{0, 0}}, {}, {1}, {}};
  Operand index;
  for (size_t i = 0; i < p.rank(); ++i) {
    const int64_t end = (p.output[i] - 1) * p.stride[i] + p.dilation[i] * (p.kernel[i] - 1) + 1;
    window.sizes.push_back(p.kernel[i]);
    window.strides.push_back(p.stride[i]);
    window.window_dilations.push_back(p.dilation[i]);
    window.padding.push_back({p.padding[i], end - p.padding[i] - p.input[i]});
    const Operand o =
        b.multiply(b.iota({ElementType::kS32, x.dimensions()}, static_cast<int64_t>(i) + 1),
                   spatial_stride(p.input, i));
    index = index ? b.add(index, o) : o;
  }
  const auto body = [](StableHloBuilder& b, graph::OperandList lhs, graph::OperandList rhs) {
    Operand take = b.bit_or(b.greater(lhs[0], rhs[0]),
                            b.bit_and(b.equal(lhs[0], rhs[0]), b.less(lhs[1], rhs[1])));
    if (pjrt::is_floating(lhs[0].element())) take = b.bit_or(take, b.is_nan(lhs[0]));
    return graph::Operands{b.select(take, lhs[0], rhs[0]), b.select(take, lhs[1], rhs[1])};
  };
  const graph::Operands results = b.reduce_window(
      {x, index}, {b.lowest(x.element()), b.highest(ElementType::kS32)}, window, body);
  return {results[0], results[1]};
}

void emit_forward(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Pooling p(e.attributes);
  const Operand x = p.flat_input(b, e.operand(0));
  const auto [best, index] = p.taps() <= kMostTaps ? by_taps(b, p, x) : by_window(b, p, x);
  e.result(0, b.reshape(best, e.result_type(0).dimensions));
  e.result(1, b.reshape(b.convert(index, graph::held(graph::ElementType::kS64)),
                        e.result_type(1).dimensions));
}

// operands: grad, indices. Every element of the input asks the windows it lies in whether they
// chose it: no scatter.
void emit_backward(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Pooling p(e.attributes);
  const Operand grad = p.flat_output(b, computed(b, e.operand(0)));
  const Operand index = p.flat_output(b, b.convert(e.operand(1), ElementType::kS32));
  const int64_t planes = grad.dimension(0);
  const Operand chosen = b.subtract(index, window_starts(b, p, planes));
  Operand result;
  if (p.tiles()) {
    const Dimensions sizes = p.tiled_sizes(planes), mapping = p.tiled_mapping();
    Operand offset;
    for (size_t i = 0; i < p.rank(); ++i) {
      const Operand k =
          b.multiply(b.iota({ElementType::kS32, sizes}, static_cast<int64_t>(2 * i) + 2),
                     spatial_stride(p.input, i));
      offset = offset ? b.add(offset, k) : k;
    }
    const Operand is_chosen = b.equal(b.broadcast_in_dim(chosen, sizes, mapping), offset);
    result = p.untiled(b, b.select(is_chosen, b.broadcast_in_dim(grad, sizes, mapping), 0));
  } else {
    result = p.merge(
        b, [&](int64_t tap) { return b.select(b.equal(chosen, tap_offset(p, tap)), grad, 0); });
  }
  const graph::Type& type = e.result_type();
  e.result(b.reshape(b.convert(result, type.element), type.dimensions));
}

std::tuple<at::Tensor, at::Tensor> forward(const Operator& op, const char* name,
                                           const at::Tensor& self, const Pooling& p) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool && !self.is_complex(), "\"", name,
                              "\" not implemented for '", c10::toString(self.scalar_type()), "'");
  Record record(op);
  record.tensor(self);
  p.add_to(record);
  const c10::DimVector sizes = p.output_sizes(self);
  const auto results = record.results({{self.scalar_type(), sizes}, {at::kLong, sizes}});
  const auto strides = pooled_strides(self, sizes);
  return {restrided(results[0], strides), restrided(results[1], strides)};
}

at::Tensor backward(const Operator& op, const at::Tensor& grad, const at::Tensor& self,
                    const at::Tensor& indices, const Pooling& p) {
  const c10::DimVector sizes = p.output_sizes(self);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(sizes) && indices.sizes() == at::IntArrayRef(sizes),
              "max_pool_backward: the gradient or the indices do not fit; got sizes ", grad.sizes(),
              " and ", indices.sizes(), ", expected ", at::IntArrayRef(sizes));
  TORCH_CHECK(grad.scalar_type() == self.scalar_type(), "expected dtype ", self.dtype(),
              " for `grad_output` but got dtype ", grad.dtype());
  Record record(op);
  record.tensor(grad).tensor(indices);
  p.add_to(record);
  return pooled_result(record, self, self.sizes());
}

std::tuple<at::Tensor, at::Tensor> max_pool2d_with_indices(
    const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool ceil_mode) {
  static constexpr Operator op{"aten::max_pool2d_with_indices", emit_forward};
  return forward(op, "max_pool2d", self,
                 Pooling("max_pool2d", self, 2, kernel, stride, padding, dilation, ceil_mode));
}

at::Tensor max_pool2d_with_indices_backward(const at::Tensor& grad, const at::Tensor& self,
                                            at::IntArrayRef kernel, at::IntArrayRef stride,
                                            at::IntArrayRef padding, at::IntArrayRef dilation,
                                            bool ceil_mode, const at::Tensor& indices) {
  static constexpr Operator op{"aten::max_pool2d_with_indices_backward", emit_backward};
  return backward(op, grad, self, indices,
                  Pooling("max_pool2d", self, 2, kernel, stride, padding, dilation, ceil_mode));
}

std::tuple<at::Tensor, at::Tensor> max_pool3d_with_indices(
    const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool ceil_mode) {
  static constexpr Operator op{"aten::max_pool3d_with_indices", emit_forward};
  return forward(op, "max_pool3d", self,
                 Pooling("max_pool3d", self, 3, kernel, stride, padding, dilation, ceil_mode));
}

at::Tensor max_pool3d_with_indices_backward(const at::Tensor& grad, const at::Tensor& self,
                                            at::IntArrayRef kernel, at::IntArrayRef stride,
                                            at::IntArrayRef padding, at::IntArrayRef dilation,
                                            bool ceil_mode, const at::Tensor& indices) {
  static constexpr Operator op{"aten::max_pool3d_with_indices_backward", emit_backward};
  return backward(op, grad, self, indices,
                  Pooling("max_pool3d", self, 3, kernel, stride, padding, dilation, ceil_mode));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("max_pool2d_with_indices", TORCH_FN(max_pool2d_with_indices));
  m.impl("max_pool2d_with_indices_backward", TORCH_FN(max_pool2d_with_indices_backward));
  m.impl("max_pool3d_with_indices", TORCH_FN(max_pool3d_with_indices));
  m.impl("max_pool3d_with_indices_backward", TORCH_FN(max_pool3d_with_indices_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
