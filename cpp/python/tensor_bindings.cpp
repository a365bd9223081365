#include <torch/csrc/utils/pybind.h>

#include "aten/device.h"
#include "aten/tensor.h"
#include "aten/variants.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {

void bind_tensors(py::module_& module) {
  module.def("register_variants", &aten::register_variants);
  module.def(
      "buffer_pointer",
      [](const at::Tensor& tensor) {
        const auto buffer = aten::executor_of(tensor).buffer(aten::contents_of(tensor));
        return reinterpret_cast<uintptr_t>(buffer->buffer.device_pointer());
      },
      "The address of the device buffer that holds the tensor's storage; executes it.");
}

}  // namespace torch_pjrt::python
