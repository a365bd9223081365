#include <torch/csrc/utils/pybind.h>

#include "aten/cpu_fallback.h"
#include "aten/device.h"
#include "aten/export.h"
#include "aten/fallback.h"
#include "aten/tensor.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {

namespace {

// The Python function that registers a decomposition; lives until the process ends.
py::object* decompositions = nullptr;

bool register_decomposition(const std::string& name, const std::string& overload) {
  py::gil_scoped_acquire gil;
  return (*decompositions)(name, overload).cast<bool>();
}

}  // namespace

void bind_tensors(py::module_& module) {
  module.def("set_decompositions", [](py::object function) {
    decompositions = new py::object(std::move(function));
    aten::set_decompositions(&register_decomposition);
  });
  module.def(
      "route_of",
      [](const std::string& name, const std::string& overload) {
        const auto op =
            c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
        if (op.hasKernelForDispatchKey(c10::DispatchKey::XLA)) return "lowered";
        if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
            op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
          return "composite";
        }
        switch (aten::route_of(op)) {
          case aten::Route::kVariant:
            return "variant";
          case aten::Route::kDecomposition:
            return "decomposed";
          case aten::Route::kCpu:
            break;
        }
        return "fallback";
      },
      "How device xla runs an operator, such as ('aten::add', 'Tensor').");
  module.def("refuse_fallbacks", &aten::refuse_fallbacks,
             "Whether operators that would run on the CPU raise on this thread; returns what was "
             "chosen before.");
  module.def(
      "buffer_pointer",
      [](const at::Tensor& tensor) {
        const auto buffer = aten::executor_of(tensor).buffer(aten::storage_value(tensor));
        return reinterpret_cast<uintptr_t>(buffer->buffer.device_pointer());
      },
      "The address of the device buffer that holds the tensor's storage; executes it.");
}

}  // namespace torch_pjrt::python
