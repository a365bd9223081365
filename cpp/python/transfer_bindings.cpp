#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/batch_copy.h"
#include "aten/dtype_policy.h"
#include "python/bindings.h"
#include "transfer/host_addressing.h"
#include "transfer/in_flight.h"

namespace py = pybind11;

namespace torch_pjrt::python {

void bind_transfer(py::module_& module) {
  module.def("to_device", &aten::to_device);
  module.def("to_host", &aten::to_host);
  module.def("dtype_policy", [] {
    return aten::dtype_policy() == aten::DtypePolicy::kStrict ? "strict" : "narrow";
  });
  module.def("set_dtype_policy", [](const std::string& name) {
    aten::set_dtype_policy(name == "strict" ? aten::DtypePolicy::kStrict
                                            : aten::DtypePolicy::kNarrow);
  });
  module.def("check_narrowing", &aten::check_narrowing);
  module.def("set_check_narrowing", &aten::set_check_narrowing);
  module.def("narrowed_dtypes", [] {
    py::dict dtypes;
    for (const auto& [dtype, held] : aten::held_dtypes()) {
      if (dtype != held) dtypes[py::cast(dtype)] = py::cast(held);
    }
    return dtypes;
  });
  module.def("transfer_limit", &transfer::InFlight::limit);
  module.def("set_transfer_limit", &transfer::InFlight::set_limit);
  module.def("set_host_memory_sharing", &transfer::set_host_memory_sharing,
             "Off: copies go as on a device whose memory the host cannot address; for tests.");
}

}  // namespace torch_pjrt::python
