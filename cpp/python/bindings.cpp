#include <torch/csrc/utils/pybind.h>

#include "python/bindings.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "The C++ part of torch_pjrt; the public interface is the package itself.";
  torch_pjrt::python::release_gil_while_blocking();
  torch_pjrt::python::keep_source_lines();
  torch_pjrt::python::bind_errors(module);
  torch_pjrt::python::bind_runtime(module);
  torch_pjrt::python::bind_metrics(module);
  torch_pjrt::python::bind_tensors(module);
  torch_pjrt::python::bind_transfer(module);
  torch_pjrt::python::bind_zero_copy(module);
  torch_pjrt::python::bind_dlpack_exchange(module);
  torch_pjrt::python::bind_compiled_graph(module);
  torch_pjrt::python::bind_programs(module);
}
