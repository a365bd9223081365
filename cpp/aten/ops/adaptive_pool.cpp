#include <ATen/native/AdaptivePooling.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/ops/norm.h"
#include "aten/ops/pooling.h"
#include "aten/ops/weighted_taps.h"
#include "graph/held_element.h"

// Pooling to a given output size: window i of a dimension is [i*in/out, ceil((i+1)*in/out)).
namespace torch_pjrt::aten {
namespace {

using graph::Dimensions;
using graph::ElementType;

c10::DimVector output_sizes(const char* name, const at::Tensor& self, at::IntArrayRef output,
                            int64_t rank) {
  TORCH_CHECK(static_cast<int64_t>(output.size()) == rank, name, ": output_size must be ", rank);
  TORCH_CHECK(self.dim() == rank + 1 || self.dim() == rank + 2, name, "(): Expected ", rank + 1,
              "D or ", rank + 2, "D tensor, but got ", self.sizes());
  for (int64_t i = self.dim() - rank; i < self.dim(); ++i) {
    TORCH_CHECK(self.size(i) > 0, name,
                "(): Expected input to have non-zero size for non-batch dimensions, but input has "
                "sizes ",
                self.sizes(), " with dimension ", i, " being empty");
  }
  c10::DimVector sizes(self.sizes().slice(0, static_cast<size_t>(self.dim() - rank)));
  for (int64_t size : output) {
    TORCH_CHECK(size >= 0, name, ": elements of output_size must be greater than or equal to 0 ",
                "but received ", output);
    sizes.push_back(size);
  }
  return sizes;
}

// attributes: spatial rank. Each dimension is averaged by itself.
template <bool forward>
void emit_average(Emission& e) {
  StableHloBuilder& b = e.builder();
  const int64_t rank = e.attributes.integer();
  Operand x = computed(b, e.operand(0));
  const graph::Type& type = e.result_type();
  for (int64_t dim = x.rank() - rank; dim < x.rank(); ++dim) {
    const int64_t from = x.dimension(dim), to = type.dimensions[static_cast<size_t>(dim)];
    if (from == to) continue;
    WeightedTaps windows(forward ? from : to, forward ? to : from);
    std::vector<int64_t> lengths;
    for (int64_t o = 0; o < windows.out(); ++o) {
      const int64_t start = at::native::start_index(o, windows.out(), windows.in);
      const int64_t end = at::native::end_index(o, windows.out(), windows.in);
      for (int64_t i = start; i < end; ++i) windows.of(o).push_back({i});
      lengths.push_back(end - start);
    }
    const auto shared = [&](Operand sums) {
      const Operand list = b.convert(b.list(ElementType::kS32, lengths), x.element());
      return b.divide(sums, b.broadcast_in_dim(list, sums.dimensions(), {dim}));
    };
    x = forward ? shared(windows.sum(b, x, dim)) : windows.transposed().sum(b, shared(x), dim);
  }
  e.result(b.convert(x, type.element));
}

at::Tensor average(const Operator& op, const char* name, const at::Tensor& self,
                   at::IntArrayRef output, int64_t rank) {
  check_floating(name, self);
  const c10::DimVector sizes = output_sizes(name, self, output, rank);
  Record record(op);
  record.tensor(self).attribute(rank);
  return pooled_result(record, self, sizes);
}

at::Tensor adaptive_avg_pool2d(const at::Tensor& self, at::IntArrayRef output) {
  static constexpr Operator op{"aten::_adaptive_avg_pool2d", emit_average<true>};
  return average(op, "adaptive_avg_pool2d", self, output, 2);
}

at::Tensor adaptive_avg_pool3d(const at::Tensor& self, at::IntArrayRef output) {
  static constexpr Operator op{"aten::_adaptive_avg_pool3d", emit_average<true>};
  return average(op, "adaptive_avg_pool3d", self, output, 3);
}

at::Tensor average_backward(const Operator& op, const char* name, const at::Tensor& grad,
                            const at::Tensor& self, int64_t rank) {
  at::native::adaptive_pool_empty_output_check(grad, name);
  TORCH_CHECK(grad.dim() == self.dim(), name, ": the gradient does not fit; got sizes ",
              grad.sizes(), ", expected ", self.dim(), " dimensions");
  Record record(op);
  record.tensor(grad).attribute(rank);
  return pooled_result(record, self, self.sizes());
}

at::Tensor adaptive_avg_pool2d_backward(const at::Tensor& grad, const at::Tensor& self) {
  static constexpr Operator op{"aten::_adaptive_avg_pool2d_backward", emit_average<false>};
  return average_backward(op, "adaptive_avg_pool2d_backward", grad, self, 2);
}

at::Tensor adaptive_avg_pool3d_backward(const at::Tensor& grad, const at::Tensor& self) {
  static constexpr Operator op{"aten::_adaptive_avg_pool3d_backward", emit_average<false>};
  return average_backward(op, "adaptive_avg_pool3d_backward", grad, self, 3);
}

// For every spatial dimension the indices of its windows' elements, all windows made as long as the
// longest by repeating their last element: a maximum does not mind. [planes, out, window, ...]
struct Windows {
  Operand values, index;
  Dimensions taps;  // the window dimensions
};

Windows windows(StableHloBuilder& b, Operand x, const Dimensions& output) {
  Windows w{x, {}, {}};
  const Dimensions input = x.dimensions();
  Operand plane_index = b.reshape(
      b.iota({ElementType::kS32, {x.type().element_count() / std::max<int64_t>(input[0], 1)}}, 0),
      graph::Ints(std::span<const int64_t>(input).subspan(1)));
  plane_index = b.unsqueeze(plane_index, 0);
  for (size_t i = 0; i < output.size(); ++i) {
    const auto dim = static_cast<int64_t>(2 * i) + 1;
    const int64_t in = input[i + 1], out = output[i];
    int64_t longest = 0;
    for (int64_t o = 0; o < out; ++o) {
      longest = std::max(longest,
                         at::native::end_index(o, out, in) - at::native::start_index(o, out, in));
    }
    std::vector<int64_t> places;
    for (int64_t o = 0; o < out; ++o) {
      const int64_t start = at::native::start_index(o, out, in);
      for (int64_t t = 0; t < longest; ++t) {
        places.push_back(std::min(start + t, at::native::end_index(o, out, in) - 1));
      }
    }
    const Operand list = b.reshape(b.list(ElementType::kS32, places), {out, longest});
    w.values = b.take(w.values, list, dim);
    plane_index = b.take(plane_index, list, dim);
    w.taps.push_back(dim + 1);
  }
  w.index = b.broadcast_to(plane_index, w.values.dimensions());
  return w;
}

void emit_max(Emission& e) {
  StableHloBuilder& b = e.builder();
  const auto rank = static_cast<size_t>(e.attributes.integer());
  const Operand x = e.operand(0);
  const Dimensions& sizes = e.result_type(0).dimensions;
  Dimensions flat{1}, output;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = x.dimensions()[i];
    if (i + rank < sizes.size()) {
      flat[0] *= size;
    } else {
      flat.push_back(size);
      output.push_back(sizes[i]);
    }
  }
  const Windows w = windows(b, b.reshape(x, flat), output);
  const Operand best = b.reduce(w.values, graph::Reducer::kMaximum, w.taps, true);
  Operand chosen = b.equal(w.values, b.broadcast_to(best, w.values.dimensions()));
  if (pjrt::is_floating(x.element())) chosen = b.bit_or(chosen, b.is_nan(w.values));
  const Operand index =
      b.reduce(b.select(chosen, w.index, INT32_MAX), graph::Reducer::kMinimum, w.taps);
  e.result(0, b.reshape(best, sizes));
  e.result(1, b.reshape(b.convert(index, graph::held(graph::ElementType::kS64)), sizes));
}

// operands: grad, indices; attributes: spatial rank
void emit_max_backward(Emission& e) {
  StableHloBuilder& b = e.builder();
  const auto rank = static_cast<size_t>(e.attributes.integer());
  const graph::Type& type = e.result_type();
  int64_t planes = 1, places = 1;
  for (size_t i = 0; i < type.dimensions.size(); ++i) {
    (i + rank < type.dimensions.size() ? planes : places) *= type.dimensions[i];
  }
  const Operand grad = computed(b, e.operand(0));
  const int64_t chosen = planes ? grad.type().element_count() / planes : 0;
  const Operand updates = b.reshape(grad, {planes, chosen});
  const Operand index = b.reshape(e.operand(1), {planes, chosen});
  const Operand zeros = b.zeros({grad.element(), {planes, places}});
  const Operand sum = b.scatter_elements(zeros, index, updates, 1, graph::Reducer::kAdd);
  e.result(b.reshape(b.convert(sum, type.element), type.dimensions));
}

std::tuple<at::Tensor, at::Tensor> maximum(const Operator& op, const char* name,
                                           const at::Tensor& self, at::IntArrayRef output,
                                           int64_t rank) {
  check_floating(name, self);
  const c10::DimVector sizes = output_sizes(name, self, output, rank);
  const auto results = Record(op).tensor(self).attribute(rank).results(
      {{self.scalar_type(), sizes}, {at::kLong, sizes}});
  const auto strides = pooled_strides(self, sizes);
  return {restrided(results[0], strides), restrided(results[1], strides)};
}

at::Tensor maximum_backward(const Operator& op, const char* name, const at::Tensor& grad,
                            const at::Tensor& self, const at::Tensor& indices, int64_t rank) {
  at::native::adaptive_pool_empty_output_check(grad, name);
  TORCH_CHECK(grad.scalar_type() == self.scalar_type(), name, ": expected dtype ", self.dtype(),
              " for `grad_output` but got dtype ", grad.dtype());
  TORCH_CHECK(grad.sizes() == indices.sizes(), name, ": expected sizes ", indices.sizes(),
              " for `grad_output` but got ", grad.sizes());
  Record record(op);
  record.tensor(grad).tensor(indices).attribute(rank);
  return pooled_result(record, self, self.sizes());
}

std::tuple<at::Tensor, at::Tensor> adaptive_max_pool2d(const at::Tensor& self,
                                                       at::IntArrayRef output) {
  static constexpr Operator op{"aten::adaptive_max_pool2d", emit_max};
  return maximum(op, "adaptive_max_pool2d", self, output, 2);
}

std::tuple<at::Tensor, at::Tensor> adaptive_max_pool3d(const at::Tensor& self,
                                                       at::IntArrayRef output) {
  static constexpr Operator op{"aten::adaptive_max_pool3d", emit_max};
  return maximum(op, "adaptive_max_pool3d", self, output, 3);
}

at::Tensor adaptive_max_pool2d_backward(const at::Tensor& grad, const at::Tensor& self,
                                        const at::Tensor& indices) {
  static constexpr Operator op{"aten::adaptive_max_pool2d_backward", emit_max_backward};
  return maximum_backward(op, "adaptive_max_pool2d_backward", grad, self, indices, 2);
}

at::Tensor adaptive_max_pool3d_backward(const at::Tensor& grad, const at::Tensor& self,
                                        const at::Tensor& indices) {
  static constexpr Operator op{"aten::adaptive_max_pool3d_backward", emit_max_backward};
  return maximum_backward(op, "adaptive_max_pool3d_backward", grad, self, indices, 3);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_adaptive_avg_pool2d", TORCH_FN(adaptive_avg_pool2d));
  m.impl("_adaptive_avg_pool3d", TORCH_FN(adaptive_avg_pool3d));
  m.impl("_adaptive_avg_pool2d_backward", TORCH_FN(adaptive_avg_pool2d_backward));
  m.impl("_adaptive_avg_pool3d_backward", TORCH_FN(adaptive_avg_pool3d_backward));
  m.impl("adaptive_max_pool2d", TORCH_FN(adaptive_max_pool2d));
  m.impl("adaptive_max_pool3d", TORCH_FN(adaptive_max_pool3d));
  m.impl("adaptive_max_pool2d_backward", TORCH_FN(adaptive_max_pool2d_backward));
  m.impl("adaptive_max_pool3d_backward", TORCH_FN(adaptive_max_pool3d_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
