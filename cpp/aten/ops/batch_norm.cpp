#include <ATen/OpMathType.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/ops/norm.h"

// Batch normalisation over every dimension but the second.
namespace torch_pjrt::aten {
namespace {

using graph::Dimensions;

Dimensions all_but_channels(Operand x) {
  Dimensions dims{0};
  for (int64_t i = 2; i < x.rank(); ++i) dims.push_back(i);
  return dims;
}

Operand over_channels(StableHloBuilder& b, Operand channel, Operand like) {
  return b.broadcast_in_dim(computed(b, channel), like.dimensions(), {1});
}

// How many elements each channel has.
double per_channel(std::span<const int64_t> sizes) {
  double count = 1;
  for (size_t i = 0; i < sizes.size(); ++i) count *= i == 1 ? 1 : static_cast<double>(sizes[i]);
  return count;
}

// operands: input, [weight], [bias], mean and rstd or variance
// attributes: has weight, has bias, the last operand is a variance, eps
void emit_apply(Emission& e) {
  StableHloBuilder& b = e.builder();
  const bool has_weight = e.attributes.boolean(), has_bias = e.attributes.boolean();
  const bool is_variance = e.attributes.boolean();
  const double eps = e.attributes.real();
  const Operand x = computed(b, e.operand(0));
  const size_t last = e.operand_count() - 1;
  Operand scale = computed(b, e.operand(last));
  if (is_variance) scale = b.rsqrt(b.add(scale, eps));
  if (has_weight) scale = b.multiply(scale, b.convert(e.operand(1), scale.element()));
  Operand y = b.subtract(x, over_channels(b, e.operand(last - 1), x));
  y = b.multiply(y, over_channels(b, scale, x));
  if (has_bias) y = b.add(y, over_channels(b, e.operand(has_weight ? 2 : 1), x));
  e.result(b.convert(y, e.result_type().element));
}

// results: mean, rstd, biased variance, the first two also unrounded
void emit_statistics(Emission& e) {
  StableHloBuilder& b = e.builder();
  const double eps = e.attributes.real();
  const Operand x = computed(b, e.operand(0));
  const Moments m = moments(b, x, all_but_channels(x), eps);
  e.result(0, b.convert(m.mean, e.result_type(0).element));
  e.result(1, b.convert(m.rstd, e.result_type(1).element));
  e.result(2, m.variance);
  e.result(3, m.mean);
  e.result(4, m.rstd);
}

// operands: running statistic, new statistic, momentum; attribute: factor of the new one
void emit_running(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Operand running = computed(b, e.operand(0));
  const auto like = [&](Operand x) {
    return b.broadcast_to(b.convert(x, running.element()), running.dimensions());
  };
  const Operand momentum = like(e.operand(2));
  const Operand fresh = b.multiply(like(e.operand(1)), e.attributes.real());
  e.result(
      b.convert(b.add(b.multiply(momentum, fresh), b.multiply(b.subtract(1, momentum), running)),
                e.result_type().element));
}

void update_running(const at::Tensor& running, const at::Tensor& fresh, double momentum,
                    double factor) {
  static constexpr Operator op{"aten::native_batch_norm.running", emit_running};
  if (!running.defined()) return;
  Record(op)
      .tensor(running)
      .tensor(fresh)
      .number(momentum, fresh.scalar_type())
      .attribute(factor)
      .write_to(running);
}

at::Tensor apply(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                 const at::Tensor& mean, const at::Tensor& scale, bool is_variance, double eps) {
  static constexpr Operator op{"aten::native_batch_norm", emit_apply};
  Record record(op);
  record.tensor(input).optional(weight).optional(bias).tensor(mean).tensor(scale);
  record.attribute(is_variance).attribute(eps);
  return record.result(input.scalar_type(), input.sizes(), suggested_strides(input));
}

void check_channels(const char* name, const at::Tensor& parameter, const at::Tensor& input) {
  if (!parameter.defined()) return;
  TORCH_CHECK(parameter.numel() == input.size(1), name, " should contain ", input.size(1),
              " elements not ", parameter.numel());
}

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Three native_batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight_or_none,
                        const std::optional<at::Tensor>& bias_or_none,
                        const std::optional<at::Tensor>& running_mean_or_none,
                        const std::optional<at::Tensor>& running_var_or_none, bool training,
                        double momentum, double eps) {
  static constexpr Operator statistics{"aten::native_batch_norm.statistics", emit_statistics};
  check_floating("batch_norm", input);
  const at::Tensor weight = weight_or_none.value_or(at::Tensor());
  const at::Tensor bias = bias_or_none.value_or(at::Tensor());
  const at::Tensor running_mean = running_mean_or_none.value_or(at::Tensor());
  const at::Tensor running_var = running_var_or_none.value_or(at::Tensor());
  TORCH_CHECK(input.dim() >= 2, "native_batch_norm: the input has no channels; got sizes ",
              input.sizes(), ", expected at least 2 dimensions");
  check_channels("weight", weight, input);
  check_channels("bias", bias, input);
  check_channels("running_mean", running_mean, input);
  check_channels("running_var", running_var, input);
  const at::ScalarType dtype = statistics_dtype(input, {weight, bias, running_mean, running_var});
  if (!training) {
    TORCH_CHECK(running_mean.defined() && running_var.defined(),
                "native_batch_norm: evaluation needs running_mean and running_var; got none; pass "
                "both or train");
    const at::Tensor none = at::empty({0}, input.options().dtype(dtype));
    return {apply(input, weight, bias, running_mean, running_var, true, eps), none, none.clone()};
  }
  const auto wide = at::toOpMathType(input.scalar_type());
  const at::IntArrayRef channels = input.sizes().slice(1, 1);
  const std::vector<at::Tensor> results = Record(statistics)
                                              .tensor(input)
                                              .attribute(eps)
                                              .results({{dtype, channels},
                                                        {dtype, channels},
                                                        {wide, channels},
                                                        {wide, channels},
                                                        {wide, channels}});
  const at::Tensor out = apply(input, weight, bias, results[3], results[4], false, eps);
  const double count = per_channel({input.sizes().data(), input.sizes().size()});
  update_running(running_mean, results[3], momentum, 1);
  update_running(running_var, results[2], momentum, count / (count - 1));
  return {out, results[0], results[1]};
}

// attributes: training, eps, has weight; operands: grad, input, [weight], mean, rstd or variance
// results: input, weight and bias gradients
void emit_gradients(Emission& e) {
  StableHloBuilder& b = e.builder();
  const bool has_weight = e.attributes.boolean();
  const bool training = e.attributes.boolean();
  const double eps = e.attributes.real();
  const Operand grad = computed(b, e.operand(0));
  const Operand x = computed(b, e.operand(1));
  const size_t last = e.operand_count() - 1;
  const Operand centred = b.subtract(x, over_channels(b, e.operand(last - 1), x));
  Operand rstd = computed(b, e.operand(last));
  if (!training) rstd = b.rsqrt(b.add(rstd, eps));
  const Dimensions dims = all_but_channels(x);
  const Operand grad_bias = sum(b, grad, dims);
  const Operand projected = sum(b, b.multiply(grad, centred), dims);
  Operand scale = rstd;
  if (has_weight) scale = b.multiply(scale, b.convert(e.operand(2), scale.element()));
  Operand inner = grad;
  if (training) {
    const double count = per_channel(x.dimensions());
    const Operand slope = b.divide(b.multiply(b.square(rstd), projected), count);
    inner = b.subtract(inner, b.multiply(centred, over_channels(b, slope, x)));
    inner = b.subtract(inner, over_channels(b, b.divide(grad_bias, count), x));
  }
  e.result(0, b.convert(b.multiply(inner, over_channels(b, scale, x)), e.result_type(0).element));
  e.result(1, b.convert(b.multiply(projected, rstd), e.result_type(1).element));
  e.result(2, b.convert(grad_bias, e.result_type(2).element));
}

Three native_batch_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                 const std::optional<at::Tensor>& weight_or_none,
                                 const std::optional<at::Tensor>& running_mean,
                                 const std::optional<at::Tensor>& running_var,
                                 const std::optional<at::Tensor>& saved_mean,
                                 const std::optional<at::Tensor>& saved_rstd, bool training,
                                 double eps, std::array<bool, 3> mask) {
  static constexpr Operator op{"aten::native_batch_norm_backward", emit_gradients};
  check_floating("batch_norm_backward", input);
  const at::Tensor weight = weight_or_none.value_or(at::Tensor());
  Record record(op);
  record.tensor(grad).tensor(input).optional(weight);
  record.tensor(training ? *saved_mean : *running_mean);
  record.tensor(training ? *saved_rstd : *running_var);
  record.attribute(training).attribute(eps);
  const at::ScalarType dtype = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const at::IntArrayRef channels = input.sizes().slice(1, 1);
  const std::vector<at::Tensor> results =
      record.results({{input.scalar_type(), input.sizes()}, {dtype, channels}, {dtype, channels}});
  return {mask[0] ? restrided(results[0], suggested_strides(input)) : at::Tensor(),
          mask[1] ? results[1] : at::Tensor(), mask[2] ? results[2] : at::Tensor()};
}

Three native_batch_norm_legit(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                              const std::optional<at::Tensor>& bias, at::Tensor& running_mean,
                              at::Tensor& running_var, bool training, double momentum, double eps) {
  return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Three native_batch_norm_no_stats(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                                 const std::optional<at::Tensor>& bias, bool training,
                                 double momentum, double eps) {
  return native_batch_norm(input, weight, bias, {}, {}, training, momentum, eps);
}

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Four batch_norm_with_update(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, at::Tensor& running_mean,
                            at::Tensor& running_var, double momentum, double eps) {
  auto [out, mean, rstd] =
      native_batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {out, mean, rstd, at::empty({0}, input.options().dtype(at::kByte))};
}

Four batch_norm_no_update(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                          const std::optional<at::Tensor>& bias,
                          const std::optional<at::Tensor>& running_mean,
                          const std::optional<at::Tensor>& running_var, double momentum,
                          double eps) {
  auto [out, mean, rstd] =
      native_batch_norm(input, weight, bias, running_mean, running_var, false, momentum, eps);
  return {out, mean, rstd, at::empty({0}, input.options().dtype(at::kByte))};
}

Three batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                          const std::optional<at::Tensor>& running_mean,
                          const std::optional<at::Tensor>& running_var,
                          const std::optional<at::Tensor>& saved_mean,
                          const std::optional<at::Tensor>& saved_rstd, bool update, double eps,
                          std::array<bool, 3> mask, const at::Tensor&) {
  return native_batch_norm_backward(grad, input, weight, running_mean, running_var, saved_mean,
                                    saved_rstd, update, eps, mask);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("native_batch_norm", TORCH_FN(native_batch_norm));
  m.impl("native_batch_norm_backward", TORCH_FN(native_batch_norm_backward));
  m.impl("_native_batch_norm_legit", TORCH_FN(native_batch_norm_legit));
  m.impl("_native_batch_norm_legit.no_stats", TORCH_FN(native_batch_norm_no_stats));
  m.impl("_batch_norm_with_update", TORCH_FN(batch_norm_with_update));
  m.impl("_batch_norm_no_update", TORCH_FN(batch_norm_no_update));
  m.impl("batch_norm_backward", TORCH_FN(batch_norm_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
