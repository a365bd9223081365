#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string_view>

namespace torch_pjrt::aten {

// Runs an operator on the cpu: inputs are copied there, results and written arguments back.
// Counts `fallback.<operator>` and names each operator once on stderr when the variable
// TORCH_PJRT_WARN_FALLBACK is set. Throws when tensors are on different devices (0-dim cpu tensors
// apart) or are sparse, quantised or nested, and where the thread refuses.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Whether `run_on_cpu` throws on this thread; returns what was chosen before.
bool refuse_fallbacks(bool refuses) noexcept;

// Throws the NotImplementedError of sparse, quantised and nested tensors.
[[noreturn]] void refuse_kind(std::string_view operator_name);

// Throws unless all tensors among the arguments are on one device; 0-dim cpu tensors apart.
void check_same_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace torch_pjrt::aten
