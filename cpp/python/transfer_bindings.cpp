#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/batch_copy.h"
#include "aten/dtype_policy.h"
#include "python/bindings.h"
#include "transfer/host_addressing.h"
#include "transfer/in_flight.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

// Thousands of new tensors would set off the garbage collector again and again, and none of them
// can be garbage yet.
py::list list_of(std::vector<at::Tensor> tensors) {
  struct WithoutCollection {
    const bool was_on = PyGC_Disable() == 1;
    ~WithoutCollection() {
      if (was_on) PyGC_Enable();
    }
  } guard;
  return py::cast(std::move(tensors));
}

}  // namespace

void bind_transfer(py::module_& module) {
  module.def("to_device", [](const std::vector<at::Tensor>& tensors, c10::Device device) {
    return list_of(aten::to_device(tensors, device));
  });
  module.def("to_host", [](const std::vector<at::Tensor>& tensors) {
    return list_of(aten::to_host(tensors));
  });
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
