#include "aten/ops/convolution.h"

#include <torch/library.h>

#include <sstream>

namespace torch_pjrt::aten {
namespace {

graph::Dimensions expanded(at::IntArrayRef values, const char* name, int64_t rank) {
  if (values.size() == 1) return graph::Dimensions(static_cast<size_t>(rank), values[0]);
  TORCH_CHECK(static_cast<int64_t>(values.size()) == rank, "expected ", name, " to be a single ",
              "integer value or a list of ", rank, " values to match the convolution dimensions, ",
              "but got ", name, "=", values);
  return graph::Dimensions(values.begin(), values.end());
}

void check_none_below(const graph::Dimensions& values, int64_t least, const char* what) {
  for (int64_t value : values) TORCH_CHECK(value >= least, what);
}

graph::Dimensions read(graph::AttributeReader& attributes) {
  const auto list = attributes.list();
  return graph::Dimensions(list.begin(), list.end());
}

at::IntArrayRef ref(const graph::Dimensions& values) { return {values.data(), values.size()}; }

}  // namespace

Convolution::Convolution(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef s,
                         at::IntArrayRef p, at::IntArrayRef d, bool transposed, at::IntArrayRef op,
                         int64_t groups)
    : transposed(transposed), groups(groups) {
  const int64_t rank = weight.dim() - 2;
  TORCH_CHECK(rank > 0, "weight should have at least three dimensions");
  TORCH_CHECK(groups > 0, "non-positive groups is not supported");
  TORCH_CHECK(input.dim() == weight.dim(), "Expected ", weight.dim(), "-dimensional input for ",
              weight.dim(), "-dimensional weight ", weight.sizes(), ", but got ", input.dim(),
              "-dimensional input of size ", input.sizes(), " instead");
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.toString(),
              ") and weight type (", weight.toString(), ") should be the same");
  stride = expanded(s, "stride", rank);
  padding = expanded(p, "padding", rank);
  dilation = expanded(d, "dilation", rank);
  output_padding = expanded(op, "output_padding", rank);
  check_none_below(padding, 0, "negative padding is not supported");
  check_none_below(output_padding, 0, "negative output_padding is not supported");
  check_none_below(stride, 1, "non-positive stride is not supported");
  check_none_below(dilation, 1, "dilation should be greater than zero");
  TORCH_CHECK(weight.size(0) >= groups && weight.size(0) % groups == 0, "Given groups=", groups,
              ", expected weight to be ", transposed ? "" : "at least ", groups,
              " at dimension 0 and divisible by it, but got weight of size ", weight.sizes(),
              " instead");
  const int64_t channels = transposed ? weight.size(0) : weight.size(1) * groups;
  TORCH_CHECK(input.size(1) == channels, "Given ",
              transposed ? "transposed=1" : "groups=", transposed ? "" : std::to_string(groups),
              ", weight of size ", weight.sizes(), ", expected input", input.sizes(), " to have ",
              channels, " channels, but got ", input.size(1), " channels instead");
  for (int64_t i = 0; !transposed && i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t padded = input.size(i + 2) + 2 * padding[at];
    const int64_t kernel = dilation[at] * (weight.size(i + 2) - 1) + 1;
    TORCH_CHECK(padded >= kernel, "Calculated padded input size per channel: (", padded,
                "). Kernel size: (", kernel, "). Kernel size can't be greater than actual input ",
                "size (at dimension ", i + 2, ")");
  }
}

Convolution::Convolution(graph::AttributeReader& attributes)
    : stride(read(attributes)),
      padding(read(attributes)),
      dilation(read(attributes)),
      output_padding(read(attributes)),
      transposed(attributes.boolean()),
      groups(attributes.integer()) {}

void Convolution::add_to(Record& record) const {
  record.attribute(ref(stride)).attribute(ref(padding)).attribute(ref(dilation));
  record.attribute(ref(output_padding)).attribute(transposed).attribute(groups);
}

c10::DimVector Convolution::output_sizes(const at::Tensor& input, const at::Tensor& weight) const {
  c10::DimVector sizes{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (size_t i = 0; i < stride.size(); ++i) {
    const int64_t in = input.size(static_cast<int64_t>(i) + 2);
    const int64_t kernel = dilation[i] * (weight.size(static_cast<int64_t>(i) + 2) - 1) + 1;
    sizes.push_back(transposed ? (in - 1) * stride[i] - 2 * padding[i] + kernel + output_padding[i]
                               : (in + 2 * padding[i] - kernel) / stride[i] + 1);
  }
  return sizes;
}

namespace {

// The memory format that PyTorch's CPU convolutions give their results.
at::MemoryFormat result_format(const at::Tensor& input, const at::Tensor& weight) {
  if (input.scalar_type() == at::kDouble) return at::MemoryFormat::Contiguous;
  for (const at::Tensor* t : {&input, &weight}) {
    const at::MemoryFormat format = t->suggest_memory_format();
    if (format != at::MemoryFormat::Contiguous) return format;
  }
  return at::MemoryFormat::Contiguous;
}

at::Tensor convolved(Record& record, const at::Tensor& input, const at::Tensor& weight,
                     at::IntArrayRef sizes) {
  const at::MemoryFormat format = result_format(input, weight);
  if (format == at::MemoryFormat::ChannelsLast) {
    return record.strided(input.scalar_type(), sizes, c10::get_channels_last_strides_2d(sizes));
  }
  if (format == at::MemoryFormat::ChannelsLast3d) {
    return record.strided(input.scalar_type(), sizes, c10::get_channels_last_strides_3d(sizes));
  }
  return record.result(input.scalar_type(), sizes);
}

// operands: input, weight[, bias]
void emit_convolution(Emission& e) {
  StableHloBuilder& b = e.builder();
  const bool has_bias = e.attributes.boolean();
  const Convolution convolution(e.attributes);
  Operand result = convolution.forward(b, e.operand(0), e.operand(1));
  if (has_bias) {
    const Operand bias = b.convert(e.operand(2), result.element());
    result = b.add(result, b.broadcast_in_dim(bias, result.dimensions(), {1}));
  }
  e.result(b.convert(result, e.result_type().element));
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  static constexpr Operator op{"aten::convolution", emit_convolution};
  const Convolution c(input, weight, stride, padding, dilation, transposed, output_padding, groups);
  const c10::DimVector sizes = c.output_sizes(input, weight);
  for (int64_t size : sizes) {
    TORCH_CHECK(size >= 0, "Given input size per channel: ", input.sizes().slice(2),
                ". Calculated output size: ", at::IntArrayRef(sizes), ". Output size is too small");
  }
  Record record(op);
  record.tensor(input).tensor(weight).optional(bias);
  if (bias && bias->defined()) {
    TORCH_CHECK(bias->dim() == 1 && bias->size(0) == sizes[1], "Given ",
                transposed ? "transposed=1" : "", ", weight of size ", weight.sizes(),
                ", expected bias to be 1-dimensional with ", sizes[1],
                " elements, but got bias of size ", bias->sizes(), " instead");
    TORCH_CHECK(bias->scalar_type() == input.scalar_type(), "Input type (", input.toString(),
                ") and bias type (", bias->toString(), ") should be the same");
  }
  c.add_to(record);
  return convolved(record, input, weight, sizes);
}

// operands: grad, weight
void emit_input_gradient(Emission& e) {
  const Convolution convolution(e.attributes);
  e.result(convolution.input_gradient(e.builder(), e.operand(0), e.operand(1),
                                      e.result_type().dimensions));
}

// operands: grad, input
void emit_weight_gradient(Emission& e) {
  const Convolution convolution(e.attributes);
  e.result(convolution.weight_gradient(e.builder(), e.operand(0), e.operand(1),
                                       e.result_type().dimensions));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> output_mask) {
  static constexpr Operator for_input{"aten::convolution_backward.input", emit_input_gradient};
  static constexpr Operator for_weight{"aten::convolution_backward.weight", emit_weight_gradient};
  const Convolution c(input, weight, stride, padding, dilation, transposed, output_padding, groups);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(c.output_sizes(input, weight)),
              "convolution_backward: the gradient does not fit; got sizes ", grad.sizes(),
              ", expected ", at::IntArrayRef(c.output_sizes(input, weight)));
  at::Tensor grad_input, grad_weight, grad_bias;
  if (output_mask[0]) {
    Record record(for_input);
    record.tensor(grad).tensor(weight);
    c.add_to(record);
    grad_input = convolved(record, input, weight, input.sizes());
  }
  if (output_mask[1]) {
    Record record(for_weight);
    record.tensor(grad).tensor(input);
    c.add_to(record);
    grad_weight = convolved(record, weight, input, weight.sizes());
  }
  if (output_mask[2]) {
    c10::DimVector dims{0};
    for (int64_t i = 2; i < grad.dim(); ++i) dims.push_back(i);
    grad_bias = grad.sum(dims);
  }
  return {grad_input, grad_weight, grad_bias};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    at::OptionalIntArrayRef, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask) {
  return convolution_backward_overrideable(grad, input, weight, stride, padding, dilation,
                                           transposed, output_padding, groups, output_mask);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("convolution", TORCH_FN(convolution));
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward", TORCH_FN(convolution_backward));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward_overrideable));
}

}  // namespace
}  // namespace torch_pjrt::aten
