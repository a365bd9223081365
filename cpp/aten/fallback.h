#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace torch_pjrt::aten {

// How device xla runs an operator that has no row of its own. Settled at its first call.
enum class Route : uint8_t {
  kVariant,        // in-place and out= variants: the functional operator, then a copy of its result
  kDecomposition,  // PyTorch's own decomposition into operators that have rows
  kCpu,            // on the cpu, counted
};

Route route_of(const c10::OperatorHandle& op);

// Registers PyTorch's decomposition of an aten operator (name without namespace, overload) as its
// xla kernel, unless it is there already. False when there is none. Set by the bindings, called on
// any thread and without the GIL.
using RegisterDecomposition = bool (*)(const std::string& name, const std::string& overload);
void set_decompositions(RegisterDecomposition register_decomposition) noexcept;

}  // namespace torch_pjrt::aten
