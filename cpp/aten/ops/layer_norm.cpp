#include <ATen/native/layer_norm.h>
#include <torch/library.h>

#include "aten/ops/norm.h"

// Normalisation of each sample: layer and group norm.
namespace torch_pjrt::aten {
namespace {

using graph::Dimensions;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// An affine parameter as it multiplies [rows..., columns...].
using Spread = Operand (*)(StableHloBuilder& b, Operand parameter, const Dimensions& sizes);

Operand over_columns(StableHloBuilder& b, Operand parameter, const Dimensions& sizes) {
  return b.broadcast_in_dim(b.reshape(parameter, {sizes[1]}), sizes, {1});
}

// sizes: samples, groups, channels of a group, places
Operand over_group_channels(StableHloBuilder& b, Operand parameter, const Dimensions& sizes) {
  return b.broadcast_in_dim(b.reshape(parameter, {sizes[1], sizes[2]}), sizes, {1, 2});
}

Dimensions range(size_t begin, size_t end) {
  Dimensions dims;
  for (size_t i = begin; i < end; ++i) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

Dimensions first(size_t count) { return range(0, count); }

// operands: input, [weight], [bias]; attributes: has weight, has bias, sizes, how many of them
// count samples, eps; results: output, mean, rstd
template <Spread spread>
void emit_forward(Emission& e) {
  StableHloBuilder& b = e.builder();
  const bool has_weight = e.attributes.boolean(), has_bias = e.attributes.boolean();
  const auto list = e.attributes.list();
  const Dimensions sizes(list.begin(), list.end());
  const auto samples = static_cast<size_t>(e.attributes.integer());
  const double eps = e.attributes.real();
  const Operand x = b.reshape(computed(b, e.operand(0)), sizes);
  const Dimensions reduced = range(samples, sizes.size());
  const Moments m = moments(b, x, reduced, eps);
  Operand y = b.subtract(x, b.broadcast_in_dim(m.mean, sizes, first(samples)));
  y = b.multiply(y, b.broadcast_in_dim(m.rstd, sizes, first(samples)));
  if (has_weight) y = b.multiply(y, spread(b, b.convert(e.operand(1), y.element()), sizes));
  if (has_bias) {
    const Operand bias = e.operand(has_weight ? 2 : 1);
    y = b.add(y, spread(b, b.convert(bias, y.element()), sizes));
  }
  const auto give = [&](size_t i, Operand value) {
    const graph::Type& type = e.result_type(i);
    e.result(i, b.reshape(b.convert(value, type.element), type.dimensions));
  };
  give(0, y);
  give(1, m.mean);
  give(2, m.rstd);
}

// operands: grad, input, mean, rstd, [weight]; attributes: has weight, sizes, samples
// results: gradients of input, weight, bias
template <Spread spread>
void emit_backward(Emission& e) {
  StableHloBuilder& b = e.builder();
  const bool has_weight = e.attributes.boolean();
  const auto list = e.attributes.list();
  const Dimensions sizes(list.begin(), list.end());
  const auto samples = static_cast<size_t>(e.attributes.integer());
  const Dimensions sample_dims = first(samples);
  const Dimensions reduced = range(samples, sizes.size());
  Dimensions sample_sizes = sizes;
  sample_sizes.resize(samples);
  const auto over_samples = [&](Operand x) {
    return b.broadcast_in_dim(b.reshape(computed(b, x), sample_sizes), sizes, sample_dims);
  };
  const Operand grad = b.reshape(computed(b, e.operand(0)), sizes);
  const Operand x = b.reshape(computed(b, e.operand(1)), sizes);
  const Operand rstd = over_samples(e.operand(3));
  const Operand normal = b.multiply(b.subtract(x, over_samples(e.operand(2))), rstd);
  Operand scaled = grad;
  if (has_weight) {
    scaled = b.multiply(grad, spread(b, b.convert(e.operand(4), grad.element()), sizes));
  }
  const Operand average = over_samples(mean(b, scaled, reduced));
  const Operand slope = over_samples(mean(b, b.multiply(scaled, normal), reduced));
  const Operand inner = b.subtract(b.subtract(scaled, average), b.multiply(normal, slope));
  // Parameters: everything but columns, or but groups and their channels, is summed.
  const Dimensions summed = samples == 1 ? Dimensions{0} : Dimensions{0, 3};
  const auto give = [&](size_t i, Operand value) {
    const graph::Type& type = e.result_type(i);
    e.result(i, b.reshape(b.convert(value, type.element), type.dimensions));
  };
  give(0, b.multiply(inner, rstd));
  give(1, sum(b, b.multiply(grad, normal), summed));
  give(2, sum(b, grad, summed));
}

Three masked(const std::vector<at::Tensor>& results, std::array<bool, 3> mask,
             const std::optional<c10::DimVector>& strides) {
  return {mask[0] ? restrided(results[0], strides) : at::Tensor(),
          mask[1] ? results[1] : at::Tensor(), mask[2] ? results[2] : at::Tensor()};
}

Three native_layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape,
                        const std::optional<at::Tensor>& weight_or_none,
                        const std::optional<at::Tensor>& bias_or_none, double eps) {
  static constexpr Operator op{"aten::native_layer_norm", emit_forward<over_columns>};
  const at::Tensor weight = weight_or_none.value_or(at::Tensor());
  const at::Tensor bias = bias_or_none.value_or(at::Tensor());
  const auto [rows, columns] =
      at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
  check_floating("LayerNormKernelImpl", input);
  const at::ScalarType dtype = statistics_dtype(input, {weight, bias});
  c10::DimVector statistics(input.sizes());
  for (size_t i = 0; i < normalized_shape.size(); ++i) *(statistics.end() - 1 - i) = 1;
  Record record(op);
  record.tensor(input).optional(weight).optional(bias);
  record.attribute(at::IntArrayRef{rows, columns}).attribute(int64_t{1}).attribute(eps);
  const std::vector<at::Tensor> results = record.results(
      {{input.scalar_type(), input.sizes()}, {dtype, statistics}, {dtype, statistics}});
  return {results[0], results[1], results[2]};
}

Three native_layer_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                 at::IntArrayRef normalized_shape, const at::Tensor& mean,
                                 const at::Tensor& rstd,
                                 const std::optional<at::Tensor>& weight_or_none,
                                 const std::optional<at::Tensor>& bias_or_none,
                                 std::array<bool, 3> mask) {
  static constexpr Operator op{"aten::native_layer_norm_backward", emit_backward<over_columns>};
  const at::Tensor weight = weight_or_none.value_or(at::Tensor());
  const at::Tensor bias = bias_or_none.value_or(at::Tensor());
  const auto [rows, columns] =
      at::native::_check_layer_norm_inputs(input, normalized_shape, weight, bias);
  const at::ScalarType dtype = weight.defined() ? weight.scalar_type() : input.scalar_type();
  Record record(op);
  record.tensor(grad).tensor(input).tensor(mean).tensor(rstd).optional(weight);
  record.attribute(at::IntArrayRef{rows, columns}).attribute(int64_t{1});
  return masked(record.results({{input.scalar_type(), input.sizes()},
                                {dtype, normalized_shape},
                                {dtype, normalized_shape}}),
                mask, {});
}

Three native_group_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight_or_none,
                        const std::optional<at::Tensor>& bias_or_none, int64_t n, int64_t channels,
                        int64_t places, int64_t groups, double eps) {
  static constexpr Operator op{"aten::native_group_norm", emit_forward<over_group_channels>};
  const at::Tensor weight = weight_or_none.value_or(at::Tensor());
  const at::Tensor bias = bias_or_none.value_or(at::Tensor());
  check_floating("GroupNormKernelImpl", input);
  TORCH_CHECK(groups > 0 && channels % groups == 0, "Expected number of channels in input to be ",
              "divisible by num_groups, but got input of shape ", input.sizes(),
              " and num_groups=", groups);
  const at::ScalarType dtype = statistics_dtype(input, {weight, bias});
  Record record(op);
  record.tensor(input).optional(weight).optional(bias);
  record.attribute(at::IntArrayRef{n, groups, channels / groups, places}).attribute(int64_t{2});
  record.attribute(eps);
  const std::vector<at::Tensor> results = record.results(
      {{input.scalar_type(), input.sizes()}, {dtype, {n, groups}}, {dtype, {n, groups}}});
  return {restrided(results[0], suggested_strides(input)), results[1], results[2]};
}

Three native_group_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                 const at::Tensor& mean, const at::Tensor& rstd,
                                 const std::optional<at::Tensor>& weight_or_none, int64_t n,
                                 int64_t channels, int64_t places, int64_t groups,
                                 std::array<bool, 3> mask) {
  static constexpr Operator op{"aten::native_group_norm_backward",
                               emit_backward<over_group_channels>};
  const at::Tensor weight = weight_or_none.value_or(at::Tensor());
  const at::ScalarType dtype = weight.defined() ? weight.scalar_type() : input.scalar_type();
  Record record(op);
  record.tensor(grad).tensor(input).tensor(mean).tensor(rstd).optional(weight);
  record.attribute(at::IntArrayRef{n, groups, channels / groups, places}).attribute(int64_t{2});
  return masked(
      record.results(
          {{input.scalar_type(), input.sizes()}, {dtype, {channels}}, {dtype, {channels}}}),
      mask, suggested_strides(input));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("native_layer_norm", TORCH_FN(native_layer_norm));
  m.impl("native_layer_norm_backward", TORCH_FN(native_layer_norm_backward));
  m.impl("native_group_norm", TORCH_FN(native_group_norm));
  m.impl("native_group_norm_backward", TORCH_FN(native_group_norm_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
