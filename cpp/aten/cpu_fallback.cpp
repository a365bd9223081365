#include "aten/cpu_fallback.h"

#include <ATen/native/CPUFallback.h>

#include <utility>

#include "base/metrics.h"

namespace torch_pjrt::aten {
namespace {

thread_local bool refuses_fallbacks = false;

// Operators that take tensors of several devices on purpose.
bool mixes_devices(std::string_view name) {
  return name == "aten::_copy_from" || name == "aten::copy_" || name == "aten::set_data";
}

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      if (tensor.defined()) visit(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) for_each_tensor(element, visit);
  }
}

void check_kind(const std::string& name, const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_nested()) {
    refuse_kind(name);
  }
}

}  // namespace

void refuse_kind(std::string_view operator_name) {
  C10_THROW_ERROR(NotImplementedError,
                  c10::str(operator_name,
                           ": sparse, quantised and nested tensors are not supported on device "
                           "xla; use a dense tensor, or keep it on cpu"));
}

void check_same_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string& name = op.schema().name();
  if (mixes_devices(name)) return;
  std::optional<c10::Device> device;
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  for (const c10::IValue& argument : arguments) {
    for_each_tensor(argument, [&](const at::Tensor& tensor) {
      check_kind(name, tensor);
      if (tensor.device().is_cpu() && tensor.dim() == 0) return;
      if (!device) device = tensor.device();
      TORCH_CHECK(*device == tensor.device(), "Expected all tensors to be on the same device, but ",
                  "found at least two devices, ", *device, " and ", tensor.device(),
                  "! (when checking an argument of ", name, ")");
    });
  }
}

bool refuse_fallbacks(bool refuses) noexcept { return std::exchange(refuses_fallbacks, refuses); }

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_same_device(op, *stack);
  const std::string name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(
      !refuses_fallbacks, "run a program with options={'fallback': False}: ", name,
      " has no lowering for device xla and would run on the CPU; write it with other operators, "
      "move it to the CPU yourself, or leave the option out");
  base::Counter& count = base::counter("fallback." + name);
  if (count.value() == 0 && std::getenv("TORCH_PJRT_WARN_FALLBACK")) {
    TORCH_WARN(name, " has no lowering for device xla and runs on the cpu");
  }
  count.add();
  at::native::cpu_fallback(op, stack);
  for (const c10::IValue& result : torch::jit::last(*stack, op.schema().returns().size())) {
    for_each_tensor(result, [&](const at::Tensor& tensor) { check_kind(name, tensor); });
  }
}

}  // namespace torch_pjrt::aten
