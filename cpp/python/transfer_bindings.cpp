#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/batch_copy.h"
#include "python/bindings.h"
#include "transfer/host_addressing.h"
#include "transfer/in_flight.h"

namespace py = pybind11;

namespace torch_pjrt::python {

void bind_transfer(py::module_& module) {
  module.def("to_device", &aten::to_device);
  module.def("to_host", &aten::to_host);
  module.def("transfer_limit", &transfer::InFlight::limit);
  module.def("set_transfer_limit", &transfer::InFlight::set_limit);
  module.def("set_host_memory_sharing", &transfer::set_host_memory_sharing,
             "Off: copies go as on a device whose memory the host cannot address; for tests.");
}

}  // namespace torch_pjrt::python
