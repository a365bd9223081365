#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

namespace torch_pjrt::aten {

// The functional operator that computes what an in-place or out= variant writes: the same base
// name and arguments, as many tensor results as the variant writes. Empty for other operators.
std::optional<c10::OperatorHandle> functional_twin(const c10::OperatorHandle& op);

// Calls the functional twin and copies its results into what the variant writes, with PyTorch's
// checks of dtype and shape.
void call_functional_twin(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace torch_pjrt::aten
