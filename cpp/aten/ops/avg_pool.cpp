#include <torch/library.h>

#include <algorithm>

#include "aten/ops/norm.h"
#include "aten/ops/pooling.h"

// Average over windows.
namespace torch_pjrt::aten {
namespace {

using graph::Dimensions;

constexpr int64_t kMostTaps = 36;

// What each window's sum is divided by, [planes, output...]; a number if it is always the same.
Operand divisors(StableHloBuilder& b, const Pooling& p, Operand like, bool count_padding,
                 int64_t fixed) {
  if (fixed) return b.filled_like(like, fixed);
  Operand product;
  for (size_t i = 0; i < p.rank(); ++i) {
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < p.output[i]; ++o) {
      int64_t start = o * p.stride[i] - p.padding[i];
      int64_t end = std::min(start + p.kernel[i], p.input[i] + p.padding[i]);
      if (!count_padding) {
        start = std::max<int64_t>(start, 0);
        end = std::min(end, p.input[i]);
      }
      counts.push_back(end - start);
    }
    const bool same = std::all_of(counts.begin(), counts.end(),
                                  [&](int64_t count) { return count == counts[0]; });
    const Operand factor =
        same ? b.filled_like(like, counts[0])
             : b.broadcast_in_dim(
                   b.convert(b.list(graph::ElementType::kS32, counts), like.element()),
                   like.dimensions(), {static_cast<int64_t>(i) + 1});
    product = product ? b.multiply(product, factor) : factor;
  }
  return product;
}

// The sum of every window.
Operand window_sums(StableHloBuilder& b, const Pooling& p, Operand x) {
  const Operand covered = p.covered(b, x, b.scalar(x.element(), 0));
  if (p.tiles()) {
    Dimensions dims;
    for (size_t i = 0; i < p.rank(); ++i) dims.push_back(static_cast<int64_t>(2 * i) + 2);
    return b.reduce(p.tiled(b, covered), graph::Reducer::kAdd, dims);
  }
  if (p.taps() <= kMostTaps) {
    Operand sum = p.window_element(b, covered, 0);
    for (int64_t tap = 1; tap < p.taps(); ++tap) {
      sum = b.add(sum, p.window_element(b, covered, tap));
    }
    return sum;
  }
  graph::Window window{{1}, {1}, {}, {}, {}, {}};
  window.sizes.append(p.kernel.data(), p.kernel.size());
  window.strides.append(p.stride.data(), p.stride.size());
  return b.reduce_window(covered, b.scalar(x.element(), 0), graph::Reducer::kAdd, window);
}

void emit_forward(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Pooling p(e.attributes);
  const bool count_padding = e.attributes.boolean();
  const int64_t fixed = e.attributes.integer();
  const Operand sum = window_sums(b, p, p.flat_input(b, computed(b, e.operand(0))));
  const Operand mean = b.divide(sum, divisors(b, p, sum, count_padding, fixed));
  const graph::Type& type = e.result_type();
  e.result(b.reshape(b.convert(mean, type.element), type.dimensions));
}

void emit_backward(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Pooling p(e.attributes);
  const bool count_padding = e.attributes.boolean();
  const int64_t fixed = e.attributes.integer();
  Operand grad = p.flat_output(b, computed(b, e.operand(0)));
  grad = b.divide(grad, divisors(b, p, grad, count_padding, fixed));
  Operand result;
  if (p.tiles()) {
    result =
        p.untiled(b, b.broadcast_in_dim(grad, p.tiled_sizes(grad.dimension(0)), p.tiled_mapping()));
  } else {
    // Every element of the input sums the windows it lies in.
    Pooling back = p;
    Dimensions low{0}, high{0}, interior{0};
    for (size_t i = 0; i < p.rank(); ++i) {
      low.push_back(p.kernel[i] - 1 - p.padding[i]);
      high.push_back(p.input[i] - 1 + p.padding[i] - (p.output[i] - 1) * p.stride[i]);
      interior.push_back(p.stride[i] - 1);
      back.input[i] = p.input[i] + p.kernel[i] - 1;
      back.output[i] = p.input[i];
      back.stride[i] = 1;
      back.padding[i] = 0;
    }
    result = window_sums(b, back, b.pad(grad, 0, low, high, interior));
  }
  const graph::Type& type = e.result_type();
  e.result(b.reshape(b.convert(result, type.element), type.dimensions));
}

Record average(const Operator& op, const at::Tensor& operand, const Pooling& p,
               bool count_include_pad, std::optional<int64_t> divisor) {
  TORCH_CHECK(!divisor || *divisor != 0, "divisor must be not zero");
  Record record(op);
  record.tensor(operand);
  p.add_to(record);
  record.attribute(count_include_pad).attribute(divisor.value_or(0));
  return record;
}

void check_dtype(const char* name, const at::Tensor& self) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.scalar_type() == at::kLong, "\"",
                              name, "\" not implemented for '", c10::toString(self.scalar_type()),
                              "'");
}

at::Tensor avg_pool2d(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                      std::optional<int64_t> divisor) {
  static constexpr Operator op{"aten::avg_pool2d", emit_forward};
  check_dtype("avg_pool2d_out_frame", self);
  const Pooling p("avg_pool2d", self, 2, kernel, stride, padding, 1, ceil_mode);
  Record record = average(op, self, p, count_include_pad, divisor);
  return pooled_result(record, self, p.output_sizes(self));
}

at::Tensor avg_pool3d(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                      std::optional<int64_t> divisor) {
  static constexpr Operator op{"aten::avg_pool3d", emit_forward};
  check_dtype("avg_pool3d_out_frame", self);
  const Pooling p("avg_pool3d()", self, 3, kernel, stride, padding, 1, ceil_mode);
  Record record = average(op, self, p, count_include_pad, divisor);
  return pooled_result(record, self, p.output_sizes(self));
}

void check_grad(const char* name, const at::Tensor& grad, const at::Tensor& self,
                const Pooling& p) {
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(p.output_sizes(self)), name,
              ": the gradient does not fit; got sizes ", grad.sizes(), ", expected ",
              at::IntArrayRef(p.output_sizes(self)));
}

at::Tensor avg_pool2d_backward(const at::Tensor& grad, const at::Tensor& self,
                               at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                               std::optional<int64_t> divisor) {
  static constexpr Operator op{"aten::avg_pool2d_backward", emit_backward};
  const Pooling p("avg_pool2d", self, 2, kernel, stride, padding, 1, ceil_mode);
  check_grad("avg_pool2d_backward", grad, self, p);
  Record record = average(op, grad, p, count_include_pad, divisor);
  return pooled_result(record, self, self.sizes());
}

at::Tensor avg_pool3d_backward(const at::Tensor& grad, const at::Tensor& self,
                               at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                               std::optional<int64_t> divisor) {
  static constexpr Operator op{"aten::avg_pool3d_backward", emit_backward};
  const Pooling p("avg_pool3d()", self, 3, kernel, stride, padding, 1, ceil_mode);
  check_grad("avg_pool3d_backward", grad, self, p);
  Record record = average(op, grad, p, count_include_pad, divisor);
  return pooled_result(record, self, self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("avg_pool2d", TORCH_FN(avg_pool2d));
  m.impl("avg_pool3d", TORCH_FN(avg_pool3d));
  m.impl("avg_pool2d_backward", TORCH_FN(avg_pool2d_backward));
  m.impl("avg_pool3d_backward", TORCH_FN(avg_pool3d_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
