#include "aten/profiler.h"

#include <ATen/record_function.h>

#include "base/trace_range.h"

namespace torch_pjrt::aten {
namespace {

void* enter(const char* name) noexcept {
  try {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks) return nullptr;
    auto* range = new at::RecordFunction(std::move(*callbacks));
    range->before("xla::" + std::string(name));
    return range;
  } catch (const std::exception&) {
    return nullptr;  // a profiler's trouble is not the program's
  }
}

void leave(void* token) noexcept { delete static_cast<at::RecordFunction*>(token); }

constexpr base::RangeHooks kHooks{enter, leave};

}  // namespace

void show_ranges_to_profiler() noexcept { base::set_range_hooks(&kHooks); }

}  // namespace torch_pjrt::aten
