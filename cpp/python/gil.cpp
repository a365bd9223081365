#include <unistd.h>

#include "base/blocking_region.h"
#include "python/bindings.h"

namespace torch_pjrt::python {
namespace {

void* release_gil() noexcept {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}

void take_gil(void* thread_state) noexcept {
  try {
    PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state));
  } catch (...) {
    // Until 3.13 Python ends a daemon thread here, by an unwinding, when the interpreter has gone.
    // Nothing above may run then, so the thread stays until the process ends, as it does
    // since 3.14.
    for (;;) pause();
  }
}

constexpr base::BlockingHooks kHooks{release_gil, take_gil};

}  // namespace

void release_gil_while_blocking() { base::set_blocking_hooks(&kHooks); }

}  // namespace torch_pjrt::python
