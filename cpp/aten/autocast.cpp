#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// torch.autocast("xla"): the same operators change precision as on cuda.
namespace torch_pjrt::aten {
namespace {

using at::IntArrayRef;  // for the signatures in ATen's lists
using at::ScalarType;
using at::Tensor;
using c10::Scalar;

at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&,
                                       const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
              "autocast: their input may round to 0 or 1. Use binary_cross_entropy_with_logits or "
              "BCEWithLogitsLoss, or call it inside autocast(\"xla\", enabled=False) with float32 "
              "inputs");
}

TORCH_LIBRARY_IMPL(_, AutocastXLA, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

#define TORCH_PJRT_LOWER(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, lower_precision_fp)
#define TORCH_PJRT_FP32(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, fp32)
#define TORCH_PJRT_FP32_DTYPE(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, fp32_set_opt_dtype)
#define TORCH_PJRT_PROMOTE(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, promote)
#define TORCH_PJRT_REDISPATCH(...) \
  KERNEL_DIFFERENT_REDISPATCH_SIGNATURE(c10::DeviceType::XLA, __VA_ARGS__)

TORCH_LIBRARY_IMPL(aten, AutocastXLA, m) {
  using namespace at;  // the lists of PyTorch before 2.13 have names of it
  AT_FORALL_LOWER_PRECISION_FP(TORCH_PJRT_LOWER)
  AT_FORALL_FP32(TORCH_PJRT_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(TORCH_PJRT_FP32_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(TORCH_PJRT_REDISPATCH)
  AT_FORALL_PROMOTE(TORCH_PJRT_PROMOTE)
  m.impl("binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

}  // namespace
}  // namespace torch_pjrt::aten
