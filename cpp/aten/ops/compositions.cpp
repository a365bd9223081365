#include <ATen/TensorOperators.h>
#include <ATen/ops/_conj_copy_native.h>
#include <ATen/ops/_neg_view_copy_native.h>
#include <ATen/ops/_propagate_xla_data_native.h>
#include <ATen/ops/_reshape_alias_copy_native.h>
#include <ATen/ops/_trilinear_native.h>
#include <ATen/ops/_weight_norm_differentiable_backward_native.h>
#include <ATen/ops/alias_copy_native.h>
#include <ATen/ops/as_strided_copy_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/as_strided_scatter_native.h>
#include <ATen/ops/detach_copy_native.h>
#include <ATen/ops/diag_embed_native.h>
#include <ATen/ops/diagonal_copy_native.h>
#include <ATen/ops/diagonal_scatter_native.h>
#include <ATen/ops/expand_copy_native.h>
#include <ATen/ops/glu_backward_jvp_native.h>
#include <ATen/ops/lift_fresh_copy_native.h>
#include <ATen/ops/linalg_pinv_native.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/narrow_copy_native.h>
#include <ATen/ops/native_channel_shuffle_native.h>
#include <ATen/ops/new_empty_strided_native.h>
#include <ATen/ops/permute_copy_native.h>
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include <ATen/ops/select_backward_native.h>
#include <ATen/ops/select_copy_native.h>
#include <ATen/ops/select_scatter_native.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/slice_copy_native.h>
#include <ATen/ops/slice_scatter_native.h>
#include <ATen/ops/split_copy_native.h>
#include <ATen/ops/split_with_sizes_copy_native.h>
#include <ATen/ops/squeeze_copy_native.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/t_copy_native.h>
#include <ATen/ops/tensor_split_native.h>
#include <ATen/ops/transpose_copy_native.h>
#include <ATen/ops/unbind_copy_native.h>
#include <ATen/ops/unfold_copy_native.h>
#include <ATen/ops/unsqueeze_copy_native.h>
#include <ATen/ops/view_as_complex_copy_native.h>
#include <ATen/ops/view_as_real_copy_native.h>
#include <ATen/ops/view_copy_native.h>
#include <torch/library.h>

// Operators that PyTorch composes of others for every backend but those that, like torch_xla, turn
// views into copies. Views are views here, so that the compositions fit.
namespace torch_pjrt::aten {
namespace {

at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2,
              "channel_shuffle expects input with > 2 dims, but got input with sizes ",
              self.sizes());
  TORCH_CHECK(groups > 0,
              "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ",
              self.size(1), " channels and ", groups, " groups.");
  return at::native::math_channel_shuffle(self, groups);
}

// PyTorch's own, which flattens for every backend but xla: so a bias of shape [1, n] fits as well.
at::Tensor linear(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  const bool flattens = input.dim() == 1 && bias && bias->defined() && bias->dim() == 2;
  if (!flattens) return at::native::linear(input, weight, bias);
  return at::native::linear(input.unsqueeze(0), weight, bias).squeeze(0);
}

at::Tensor rsub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return at::sub(other, self, alpha);
}

// PyTorch wants the indices on the cpu, where another device's tensors have them next to the rest.
std::vector<at::Tensor> tensor_split(const at::Tensor& self, const at::Tensor& indices,
                                     int64_t dim) {
  return at::native::tensor_split(self, indices.cpu(), dim);
}

// The derivative of a gated linear unit along dx, from its result.
at::Tensor glu_jvp(const at::Tensor& glu, const at::Tensor& x, const at::Tensor& dx, int64_t dim) {
  const int64_t size = glu.size(dim);
  const at::Tensor gate = at::sigmoid(x.narrow(dim, size, size));
  return gate * dx.narrow(dim, 0, size) + glu * (1 - gate) * dx.narrow(dim, size, size);
}

// At autograd's key: both are compositions that differentiate. Tensors of inference mode lack it.
void register_differentiable(torch::Library& m) {
  m.impl("linear", TORCH_FN(linear));
  m.impl("tensor_split.tensor_indices_or_sections", TORCH_FN(tensor_split));
}

TORCH_LIBRARY_IMPL(aten, AutogradXLA, m) { register_differentiable(m); }

// functionalize() calls it for xla tensors alone; it does nothing, and vmap has no rule for it.
TORCH_LIBRARY_IMPL(aten, FuncTorchBatched, m) {
  m.impl("_propagate_xla_data", TORCH_FN(at::native::_propagate_xla_data));
}

at::Tensor pinv(const at::Tensor& self, const std::optional<at::Tensor>& atol,
                const std::optional<at::Tensor>& rtol, bool hermitian) {
  return at::native::linalg_pinv(self, atol, rtol, hermitian);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  register_differentiable(m);
  m.impl("as_strided_", TORCH_FN(at::native::as_strided__symint));
  m.impl("diag_embed", TORCH_FN(at::native::diag_embed));
  m.impl("new_empty_strided", TORCH_FN(at::native::new_empty_strided_symint));
  m.impl("pixel_shuffle", TORCH_FN(at::native::math_pixel_shuffle));
  m.impl("pixel_unshuffle", TORCH_FN(at::native::math_pixel_unshuffle));
  m.impl("select_backward", TORCH_FN(at::native::select_backward_symint));
  m.impl("slice_scatter", TORCH_FN(at::native::slice_scatter));
  m.impl("select_scatter", TORCH_FN(at::native::select_scatter_symint));
  m.impl("diagonal_scatter", TORCH_FN(at::native::diagonal_scatter));
  m.impl("as_strided_scatter", TORCH_FN(at::native::as_strided_scatter_symint));
  m.impl("lift_fresh_copy", TORCH_FN(at::native::lift_fresh_copy));
  m.impl("view_as_real_copy", TORCH_FN(at::native::view_as_real_copy));
  m.impl("view_as_complex_copy", TORCH_FN(at::native::view_as_complex_copy));
  m.impl("_conj_copy", TORCH_FN(at::native::_conj_copy));
  m.impl("_neg_view_copy", TORCH_FN(at::native::_neg_view_copy));
  m.impl("as_strided_copy", TORCH_FN(at::native::as_strided_copy_symint));
  m.impl("diagonal_copy", TORCH_FN(at::native::diagonal_copy));
  m.impl("expand_copy", TORCH_FN(at::native::expand_copy_symint));
  m.impl("permute_copy", TORCH_FN(at::native::permute_copy));
  m.impl("_reshape_alias_copy", TORCH_FN(at::native::_reshape_alias_copy_symint));
  m.impl("select_copy.int", TORCH_FN(at::native::select_copy_symint));
  m.impl("detach_copy", TORCH_FN(at::native::detach_copy));
  m.impl("slice_copy.Tensor", TORCH_FN(at::native::slice_copy_Tensor_symint));
  m.impl("split_copy.Tensor", TORCH_FN(at::native::split_copy_Tensor_symint));
  m.impl("split_with_sizes_copy", TORCH_FN(at::native::split_with_sizes_copy_symint));
  m.impl("squeeze_copy", TORCH_FN(at::native::squeeze_copy));
  m.impl("squeeze_copy.dim", TORCH_FN(at::native::squeeze_copy_dim));
  m.impl("squeeze_copy.dims", TORCH_FN(at::native::squeeze_copy_dims));
  m.impl("t_copy", TORCH_FN(at::native::t_copy));
  m.impl("transpose_copy.int", TORCH_FN(at::native::transpose_copy_int));
  m.impl("unsqueeze_copy", TORCH_FN(at::native::unsqueeze_copy));
  m.impl("unbind_copy.int", TORCH_FN(at::native::unbind_copy_int));
  m.impl("view_copy", TORCH_FN(at::native::view_copy_symint));
  m.impl("view_copy.dtype", TORCH_FN(at::native::view_copy_dtype));
  m.impl("unfold_copy", TORCH_FN(at::native::unfold_copy));
  m.impl("alias_copy", TORCH_FN(at::native::alias_copy));
  m.impl("channel_shuffle", TORCH_FN(channel_shuffle));
  m.impl("linalg_pinv.atol_rtol_tensor", TORCH_FN(pinv));
  m.impl("glu_jvp", TORCH_FN(glu_jvp));
  m.impl("glu_backward_jvp", TORCH_FN(at::native::glu_backward_jvp));
  m.impl("rsub.Tensor", TORCH_FN(rsub));
  m.impl("_trilinear", TORCH_FN(at::native::_trilinear));
  m.impl("_weight_norm_interface_backward",
         TORCH_FN(at::native::_weight_norm_differentiable_backward));
  m.impl("narrow_copy", TORCH_FN(at::native::narrow_copy_dense_symint));
}

}  // namespace
}  // namespace torch_pjrt::aten
