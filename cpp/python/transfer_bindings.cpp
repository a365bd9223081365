#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/batch_copy.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {

void bind_transfer(py::module_& module) {
  module.def("to_device", &aten::to_device);
  module.def("to_host", &aten::to_host);
}

}  // namespace torch_pjrt::python
