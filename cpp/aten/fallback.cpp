#include "aten/fallback.h"

#include <torch/library.h>

#include <mutex>
#include <unordered_map>

#include "aten/cpu_fallback.h"
#include "aten/variants.h"

namespace torch_pjrt::aten {
namespace {

RegisterDecomposition register_decomposition = nullptr;

// Not one that is CompositeExplicitAutograd: many of those call their own out= variant, which
// would come back here for ever.
bool has_device_kernel(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::XLA) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

Route settle(const c10::OperatorHandle& op) {
  if (const auto twin = functional_twin(op)) {
    if (has_device_kernel(*twin) || route_of(*twin) != Route::kCpu) return Route::kVariant;
  }
  const c10::OperatorName& name = op.operator_name();
  constexpr std::string_view kNamespace = "aten::";
  if (register_decomposition && name.name.starts_with(kNamespace) &&
      register_decomposition(name.name.substr(kNamespace.size()), name.overload_name)) {
    return Route::kDecomposition;
  }
  return Route::kCpu;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  switch (route_of(op)) {
    case Route::kVariant:
      return call_functional_twin(op, stack);
    case Route::kDecomposition:
      return op.callBoxed(stack);  // it has a kernel now
    case Route::kCpu:
      return run_on_cpu(op, stack);
  }
}

TORCH_LIBRARY_IMPL(_, XLA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace

void set_decompositions(RegisterDecomposition hook) noexcept { register_decomposition = hook; }

// Settling may take the GIL, so the lock is not held meanwhile: two threads may settle the same.
Route route_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, Route> routes;
  {
    std::lock_guard lock(mutex);
    const auto found = routes.find(op.operator_name());
    if (found != routes.end()) return found->second;
  }
  const Route route = settle(op);
  std::lock_guard lock(mutex);
  return routes.try_emplace(op.operator_name(), route).first->second;
}

}  // namespace torch_pjrt::aten
