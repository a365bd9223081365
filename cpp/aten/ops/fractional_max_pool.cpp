#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/fractional_max_pool2d.h>
#include <ATen/ops/fractional_max_pool3d.h>
#include <torch/library.h>

#include "aten/ops/elementwise.h"
#include "aten/ops/norm.h"
#include "aten/ops/rounding.h"

// Maximum over windows of one size whose places are random, with the indices of the maxima in their
// plane.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Dimensions;

constexpr int64_t kMostTaps = 64;  // more are a loop instead of one by one

int64_t product(const Dimensions& sizes, size_t first) {
  return c10::multiply_integers(sizes.begin() + first, sizes.end());
}

// Where windows begin in one dimension, [planes, outputs], from one sample a plane; as
// at::native::generate_intervals, which rounds every step to the samples' type.
Operand starts(Builder& b, Operand sample, int64_t input, int64_t output, int64_t kernel) {
  const ElementType given = sample.element(), element = compute_type(given);
  const auto rounded = [&](Operand x) { return rounded_to(b, x, given); };
  const Dimensions sizes{sample.dimension(0), output};
  const Operand place = b.iota({ElementType::kS32, sizes}, 1);
  const Operand last = b.filled_like(place, input - kernel);
  if (output == 1) return last;
  const auto number = [&](int64_t n) {
    return rounded(b.filled({element, sizes}, static_cast<double>(n)));
  };
  const Operand alpha = rounded(b.divide(number(input - kernel), number(output - 1)));
  const Operand samples = b.broadcast_in_dim(b.convert(sample, element), sizes, {0});
  const auto scaled = [&](Operand x) {
    return b.convert(rounded(b.multiply(x, alpha)), ElementType::kS32);
  };
  const Operand moved = rounded(b.add(rounded(b.convert(place, element)), samples));
  const Operand start = b.subtract(scaled(moved), scaled(samples));
  return b.select(b.equal(place, output - 1), last, start);
}

// operands: self, samples; attributes: kernel, output
constexpr Operator kForward{
    "aten::fractional_max_pool", [](Emission& e) {
      Builder& b = e.builder();
      const std::span<const int64_t> kernel = e.attributes.list();
      const std::span<const int64_t> output = e.attributes.list();
      const size_t rank = kernel.size();
      const graph::Type& type = e.result_type();
      if (type.element_count() == 0) {
        e.result(0, b.zeros(type));
        return e.result(1, b.zeros(e.result_type(1)));
      }
      const Dimensions& whole = e.operand(0).dimensions();
      Dimensions input;
      input.append(whole.end() - rank, rank);
      const int64_t plane = product(input, 0);
      const Operand x = b.reshape(e.operand(0), {-1, plane});
      const int64_t planes = x.dimension(0);
      const Operand samples = b.reshape(e.operand(1), {-1, static_cast<int64_t>(rank)});
      Dimensions sizes{planes};
      sizes.append(output.data(), output.size());
      // Of two dimensions the last one's sample comes first, of three the first one's.
      Operand first;
      for (size_t i = 0; i < rank; ++i) {
        const int64_t column = static_cast<int64_t>(rank == 2 ? 1 - i : i);
        const Operand sample = b.slice_dim(b.select_index(samples, 1, column), 0, 0, planes);
        const Operand start =
            b.multiply(starts(b, sample, input[i], output[i], kernel[i]), product(input, i + 1));
        const Operand everywhere =
            b.broadcast_in_dim(start, sizes, {0, static_cast<int64_t>(i) + 1});
        first = first ? b.add(first, everywhere) : everywhere;
      }
      first = b.reshape(first, {planes, -1});
      const auto better = [&](Builder& b, Operand index, Operand best, Operand best_index) {
        const Operand value = b.gather_elements(x, index, 1);
        const Operand wins = b.bit_or(b.greater(value, best), b.is_nan(value));
        return std::pair(b.select(wins, value, best), b.select(wins, index, best_index));
      };
      const int64_t taps = c10::multiply_integers(kernel);
      Operand best = b.broadcast_to(b.lowest(x.element()), first.dimensions()), index = first;
      if (taps <= kMostTaps) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          int64_t rest = tap, offset = 0;
          for (size_t i = rank; i-- > 0; rest /= kernel[i]) {
            offset += rest % kernel[i] * product(input, i + 1);
          }
          std::tie(best, index) = better(b, b.add(first, offset), best, index);
        }
      } else {
        const graph::Operands end = b.while_loop(
            {b.scalar(ElementType::kS32, 0), best, index},
            [&](Builder& b, graph::OperandList s) { return graph::Operands{b.less(s[0], taps)}; },
            [&](Builder& b, graph::OperandList s) {
              Operand rest = s[0], offset = b.scalar(ElementType::kS32, 0);
              for (size_t i = rank; i-- > 0; rest = b.divide(rest, kernel[i])) {
                const Operand step = b.remainder(rest, kernel[i]);
                offset = b.add(offset, b.multiply(step, product(input, i + 1)));
              }
              const Operand place = b.add(first, b.broadcast_to(offset, first.dimensions()));
              const auto [value, chosen] = better(b, place, s[1], s[2]);
              return graph::Operands{b.add(s[0], 1), value, chosen};
            });
        best = end[1];
        index = end[2];
      }
      e.result(0, b.reshape(best, type.dimensions));
      e.result(1, b.reshape(b.convert(index, e.result_type(1).element), type.dimensions));
    }};

// operands: gradient, indices; attribute: spatial dimensions
constexpr Operator kBackward{
    "aten::fractional_max_pool_backward", [](Emission& e) {
      Builder& b = e.builder();
      const graph::Type& type = e.result_type();
      const size_t rank = static_cast<size_t>(e.attributes.integer());
      if (type.element_count() == 0 || e.operand(0).type().element_count() == 0) {
        return e.result(b.zeros(type));
      }
      const int64_t plane = product(type.dimensions, type.dimensions.size() - rank);
      const int64_t planes = type.element_count() / plane;
      const Operand grad = b.reshape(e.operand(0), {planes, -1});
      const Operand index = b.reshape(e.operand(1), {planes, -1});
      const Operand none = b.zeros({grad.element(), {planes, plane}});
      e.result(b.reshape(b.scatter_elements(none, index, grad, 1, graph::Reducer::kAdd),
                         type.dimensions));
    }};

// PyTorch's own shape rule and checks.
template <int kRank>
at::Tensor model(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef output,
                 const at::Tensor& samples) {
  const auto shape = [](const at::Tensor& x) {
    return at::empty_like(x, x.options().device(at::kMeta));
  };
  if constexpr (kRank == 2) {
    return std::get<0>(at::fractional_max_pool2d(shape(self), kernel, output, shape(samples)));
  } else {
    return std::get<0>(at::fractional_max_pool3d(shape(self), kernel, output, shape(samples)));
  }
}

template <int kRank>
std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& self, at::IntArrayRef kernel,
                                           at::IntArrayRef output, const at::Tensor& samples) {
  const at::Tensor shape = model<kRank>(self, kernel, output, samples);
  at::native::fractional_max_pool_check_shape<kRank>(self, samples);
  check_floating("fractional_max_pool_out_frame", self);
  const auto both = Record(kForward)
                        .tensors({self, samples})
                        .attribute(kernel)
                        .attribute(output)
                        .results({{self.scalar_type(), shape.sizes()}, {at::kLong, shape.sizes()}});
  return {both[0], both[1]};
}

template <int kRank>
at::Tensor backward(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef kernel,
                    at::IntArrayRef output, const at::Tensor& indices) {
  check_floating("fractional_max_pool_backward_out_frame", self);
  c10::DimVector sizes(self.sizes().begin(), self.sizes().end());
  TORCH_CHECK(kernel.size() == kRank && output.size() == kRank && self.dim() > kRank,
              "fractional_max_pool_backward: the sizes do not fit; got ", kernel, " and ", output,
              " for an input of ", self.sizes(), ", expected ", kRank, " numbers each");
  std::copy(output.begin(), output.end(), sizes.end() - kRank);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(sizes) && indices.sizes() == at::IntArrayRef(sizes),
              "fractional_max_pool_backward: the gradient or the indices do not fit; got sizes ",
              grad.sizes(), " and ", indices.sizes(), ", expected ", at::IntArrayRef(sizes));
  return Record(kBackward)
      .tensors({grad, indices})
      .attribute(int64_t{kRank})
      .result(self.scalar_type(), self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("fractional_max_pool2d", TORCH_FN(forward<2>));
  m.impl("fractional_max_pool2d_backward", TORCH_FN(backward<2>));
  m.impl("fractional_max_pool3d", TORCH_FN(forward<3>));
  m.impl("fractional_max_pool3d_backward", TORCH_FN(backward<3>));
}

}  // namespace
}  // namespace torch_pjrt::aten
