#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "aten/ops/norm.h"

// What torch.amp.GradScaler calls: gradients divided by the scale, and the scale of the next step.
namespace torch_pjrt::aten {
namespace {

void check_number(const at::Tensor& tensor, const char* name, c10::ScalarType dtype) {
  TORCH_CHECK(tensor.numel() == 1, name, " must be a 1-element tensor.");
  TORCH_CHECK(tensor.scalar_type() == dtype, name, " must be ",
              dtype == at::kInt ? "an int tensor." : "a float tensor.");
}

void unscale_(at::TensorList gradients, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  if (gradients.empty()) return;
  check_number(inv_scale, "inv_scale", at::kFloat);
  check_number(found_inf, "found_inf", at::kFloat);
  for (const at::Tensor& gradient : gradients) {
    check_floating("_amp_foreach_non_finite_check_and_unscale_cpu", gradient);
    found_inf.masked_fill_(at::isfinite(gradient).all().logical_not(), 1);
    // Expanded, it is no scalar: float16 gradients are multiplied in float32.
    gradient.mul_(inv_scale.reshape({}).expand(gradient.sizes()));
  }
}

at::Tensor& update_scale_(at::Tensor& scale, at::Tensor& growth_tracker,
                          const at::Tensor& found_inf, double growth_factor, double backoff_factor,
                          int64_t growth_interval) {
  check_number(growth_tracker, "growth_tracker", at::kInt);
  check_number(scale, "current_scale", at::kFloat);
  check_number(found_inf, "found_inf", at::kFloat);
  const at::Tensor found = found_inf.ne(0).reshape({});
  const at::Tensor steps = growth_tracker.add(1).reshape({});
  const at::Tensor is_due = steps.eq(growth_interval);
  const at::Tensor before = scale.reshape({});
  const auto times = [&](double factor) {
    return before.to(at::kDouble).mul(factor).to(at::kFloat);
  };
  const at::Tensor grown = times(growth_factor);
  const at::Tensor kept = at::where(is_due.logical_and(at::isfinite(grown)), grown, before);
  scale.copy_(at::where(found, times(backoff_factor), kept));
  growth_tracker.copy_(steps.masked_fill(found.logical_or(is_due), 0));
  return scale;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(unscale_));
  m.impl("_amp_update_scale_", TORCH_FN(update_scale_));
}

}  // namespace
}  // namespace torch_pjrt::aten
