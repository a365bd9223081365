#pragma once

#include <pybind11/pybind11.h>

namespace torch_pjrt::python {

// Makes the core's blocking regions release the GIL.
void release_gil_while_blocking();

// Lets recorded operators remember the user's line.
void keep_source_lines();

void bind_errors(pybind11::module_& module);
void bind_runtime(pybind11::module_& module);
void bind_metrics(pybind11::module_& module);
void bind_tensors(pybind11::module_& module);
void bind_transfer(pybind11::module_& module);
void bind_zero_copy(pybind11::module_& module);
void bind_dlpack_exchange(pybind11::module_& module);
void bind_compiled_graph(pybind11::module_& module);
void bind_programs(pybind11::module_& module);

}  // namespace torch_pjrt::python
