#include "aten/cpu_fallback.h"

// Sparse, quantised and nested tensors have keys of their own, which no kernel serves on xla.
namespace torch_pjrt::aten {
namespace {

void refuse(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  refuse_kind(op.schema().name());
}

}  // namespace

TORCH_LIBRARY_IMPL(_, SparseXLA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrXLA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}
TORCH_LIBRARY_IMPL(_, QuantizedXLA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorXLA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse>());
}

}  // namespace torch_pjrt::aten
