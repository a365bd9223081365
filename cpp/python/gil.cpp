#include "base/blocking_region.h"
#include "python/bindings.h"

namespace torch_pjrt::python {
namespace {

void* release_gil() noexcept {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}

void take_gil(void* thread_state) noexcept {
  PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state));
}

constexpr base::BlockingHooks kHooks{release_gil, take_gil};

}  // namespace

void release_gil_while_blocking() { base::set_blocking_hooks(&kHooks); }

}  // namespace torch_pjrt::python
