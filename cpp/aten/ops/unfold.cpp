#include <ATen/native/im2col_shape_check.h>
#include <torch/library.h>

#include "aten/ops/norm.h"
#include "aten/ops/pooling.h"

// F.unfold and F.fold: windows of an image as columns, and their sum back.
namespace torch_pjrt::aten {
namespace {

Pooling windows(at::IntArrayRef image, at::IntArrayRef kernel, at::IntArrayRef dilation,
                at::IntArrayRef padding, at::IntArrayRef stride) {
  Pooling p;
  for (size_t i = 0; i < 2; ++i) {
    p.kernel.push_back(kernel[i]);
    p.dilation.push_back(dilation[i]);
    p.padding.push_back(padding[i]);
    p.stride.push_back(stride[i]);
    p.input.push_back(image[i]);
    p.output.push_back((image[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] +
                       1);
  }
  return p;
}

void check_pairs(at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                 at::IntArrayRef stride) {
  TORCH_CHECK(kernel.size() == 2, "It is expected kernel_size equals to 2, but got size ",
              kernel.size());
  TORCH_CHECK(dilation.size() == 2, "It is expected dilation equals to 2, but got size ",
              dilation.size());
  TORCH_CHECK(padding.size() == 2, "It is expected padding equals to 2, but got size ",
              padding.size());
  TORCH_CHECK(stride.size() == 2, "It is expected stride equals to 2, but got size ",
              stride.size());
}

void emit_im2col(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Pooling p(e.attributes);
  const Operand x = p.flat_input(b, e.operand(0));
  const Operand covered = p.covered(b, x, b.scalar(x.element(), 0));
  graph::Operands parts;
  for (int64_t tap = 0; tap < p.taps(); ++tap) {
    parts.push_back(p.window_element(b, covered, tap));
  }
  e.result(b.reshape(b.stack(parts, 1), e.result_type().dimensions));
}

void emit_col2im(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Pooling p(e.attributes);
  const graph::Type& type = e.result_type();
  const Operand x = computed(b, e.operand(0));
  const int64_t places = p.output[0] * p.output[1];
  const int64_t planes = x.type().element_count() / std::max<int64_t>(p.taps() * places, 1);
  const Operand taps = b.reshape(x, {planes, p.taps(), p.output[0], p.output[1]});
  const Operand sum = p.merge(b, [&](int64_t tap) { return b.select_index(taps, 1, tap); });
  e.result(b.reshape(b.convert(sum, type.element), type.dimensions));
}

at::Tensor im2col(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  static constexpr Operator op{"aten::im2col", emit_im2col};
  check_pairs(kernel, dilation, padding, stride);
  at::native::im2col_shape_check(self, at::Tensor(), kernel[0], kernel[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  const auto lead = static_cast<size_t>(self.dim()) - 3;
  const Pooling p = windows(self.sizes().slice(lead + 1), kernel, dilation, padding, stride);
  c10::DimVector sizes(self.sizes().slice(0, lead));
  sizes.push_back(self.size(static_cast<int64_t>(lead)) * p.taps());
  sizes.push_back(p.output[0] * p.output[1]);
  Record record(op);
  record.tensor(self);
  p.add_to(record);
  return record.result(self.scalar_type(), sizes);
}

at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output, at::IntArrayRef kernel,
                  at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  static constexpr Operator op{"aten::col2im", emit_col2im};
  TORCH_CHECK(output.size() == 2, "It is expected output_size equals to 2, but got size ",
              output.size());
  check_pairs(kernel, dilation, padding, stride);
  at::native::col2im_shape_check(self, at::Tensor(), output[0], output[1], kernel[0], kernel[1],
                                 dilation[0], dilation[1], padding[0], padding[1], stride[0],
                                 stride[1]);
  const Pooling p = windows(output, kernel, dilation, padding, stride);
  c10::DimVector sizes(self.sizes().slice(0, static_cast<size_t>(self.dim()) - 2));
  sizes.push_back(self.size(-2) / p.taps());
  sizes.append(output.begin(), output.end());
  Record record(op);
  record.tensor(self);
  p.add_to(record);
  return record.result(self.scalar_type(), sizes);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("im2col", TORCH_FN(im2col));
  m.impl("col2im", TORCH_FN(col2im));
}

}  // namespace
}  // namespace torch_pjrt::aten
