#include <ATen/ops/_linalg_check_errors_native.h>
#include <torch/library.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/record.h"
#include "graph/capture.h"

// The error of a matrix that has no inverse, factor or the like.
namespace torch_pjrt::aten {
namespace {

void emit_failed(Emission& e) {
  StableHloBuilder& b = e.builder();
  e.result(any(b, b.not_equal(e.operand(0), 0)));
}

// Named by the whole message; lives as long as the process, as operators do.
const Operator& failure_of(std::string_view function) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, Operator, std::less<>>;
  if (function.starts_with("torch.")) function.remove_prefix(6);
  const std::string message =
      std::string(function) +
      ": A matrix is singular, not positive-definite or ill-conditioned; check the input";
  const std::lock_guard lock(mutex);
  const auto place = known.find(message);
  if (place != known.end()) return place->second;
  auto* const name = new std::string(message);
  return known.emplace(message, Operator(*name, emit_failed)).first->second;
}

// At once, as on the cpu. An exported program reads nothing, and is recorded with stand-ins for
// arguments: it has a check of its own.
void check_errors(const at::Tensor& info, std::string_view function, bool is_matrix) {
  if (graph::Capture::exports_on_this_thread()) {
    return check_never(failure_of(function), info);
  }
  at::native::_linalg_check_errors(info, function, is_matrix);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("_linalg_check_errors", TORCH_FN(check_errors)); }

}  // namespace
}  // namespace torch_pjrt::aten
