#include "aten/ops/norm.h"

#include <algorithm>

#include "aten/ops/matmul.h"

namespace torch_pjrt::aten {

c10::ScalarType statistics_dtype(const at::Tensor& input, at::ArrayRef<at::Tensor> parameters) {
  const c10::ScalarType dtype = input.scalar_type();
  if (dtype != at::kHalf && dtype != at::kBFloat16) return dtype;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.defined() && parameter.scalar_type() == at::kFloat) return at::kFloat;
  }
  return dtype;
}

void check_floating(const char* what, const at::Tensor& input) {
  TORCH_CHECK_NOT_IMPLEMENTED(input.is_floating_point(), "\"", what, "\" not implemented for '",
                              c10::toString(input.scalar_type()), "'");
}

Operand computed(StableHloBuilder& builder, Operand x) {
  return builder.convert(x, accumulation_type(x.element()));
}

Operand sum(StableHloBuilder& builder, Operand x, const graph::Dimensions& dims) {
  if (dims.size() == 1 || dims[0] != 0) return builder.reduce(x, graph::Reducer::kAdd, dims);
  const graph::Ints inner = std::span<const int64_t>(dims).subspan(1);
  return builder.reduce(builder.reduce(x, graph::Reducer::kAdd, inner), graph::Reducer::kAdd, {0});
}

Operand mean(StableHloBuilder& builder, Operand x, const graph::Dimensions& dims) {
  double count = 1;
  for (int64_t d : dims) count *= static_cast<double>(x.dimension(d));
  return builder.divide(sum(builder, x, dims), count);
}

namespace {

graph::Dimensions kept_dims(Operand x, const graph::Dimensions& dims) {
  graph::Dimensions kept;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) kept.push_back(i);
  }
  return kept;
}

}  // namespace

Moments moments(StableHloBuilder& b, Operand x, const graph::Dimensions& dims, double eps) {
  const Operand average = mean(b, x, dims);
  const Operand centred =
      b.subtract(x, b.broadcast_in_dim(average, x.dimensions(), kept_dims(x, dims)));
  const Operand variance = mean(b, b.square(centred), dims);
  return {average, b.rsqrt(b.add(variance, eps)), variance};
}

at::Tensor restrided(const at::Tensor& contiguous, const std::optional<c10::DimVector>& strides) {
  if (!strides) return contiguous;
  return make_tensor(executor_of(contiguous), value_of(contiguous), contiguous.scalar_type(),
                     *strides);
}

std::optional<c10::DimVector> suggested_strides(const at::Tensor& input) {
  const at::MemoryFormat format = input.suggest_memory_format();
  if (format == at::MemoryFormat::Contiguous) return std::nullopt;
  return format == at::MemoryFormat::ChannelsLast
             ? c10::DimVector(c10::get_channels_last_strides_2d(input.sizes()))
             : c10::DimVector(c10::get_channels_last_strides_3d(input.sizes()));
}

}  // namespace torch_pjrt::aten
