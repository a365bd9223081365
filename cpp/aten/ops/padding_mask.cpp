#include <ATen/ops/any.h>
#include <ATen/ops/item.h>
#include <torch/library.h>

// What TransformerEncoder asks of a padding mask before it tries nested tensors.
namespace torch_pjrt::aten {
namespace {

// Whether each row is true up to some place and false after it. Reads one bool from the device; the
// CPU's operator would need `input` there, too.
bool left_aligned(const at::Tensor& input, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Expected mask to be of ScalarType Bool, but got ",
              mask.scalar_type(), " instead.");
  TORCH_CHECK(mask.dim() == 2, "Padding mask should be 2D");
  TORCH_CHECK(input.dim() == 3, "Input should be a 3D tensor, N * L * D");
  TORCH_CHECK(mask.sizes() == input.sizes().slice(0, 2), "Mask size should match input size");
  const int64_t length = mask.size(1);
  TORCH_CHECK_INDEX(length > 0, "Padding mask: no place to align; got length 0");
  const at::Tensor later = mask.narrow(1, 1, length - 1);
  const at::Tensor earlier = mask.narrow(1, 0, length - 1);
  return !later.gt(earlier).any().item<bool>();
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(left_aligned));
}

}  // namespace
}  // namespace torch_pjrt::aten
