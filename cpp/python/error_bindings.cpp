#include "graph/executor.h"
#include "pjrt/error.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

// torch.OutOfMemoryError; PyTorch's own handle to it is not exported.
PyObject* out_of_memory_error() {
  return py::module_::import("torch").attr("OutOfMemoryError").ptr();
}

PyObject* linear_algebra_error() {
  return py::module_::import("torch.linalg").attr("LinAlgError").ptr();
}

PyObject* exception_for(pjrt::ErrorCode code) {
  switch (code) {
    case pjrt::ErrorCode::kInvalidArgument:
      return PyExc_ValueError;
    case pjrt::ErrorCode::kUnimplemented:
      return PyExc_NotImplementedError;
    case pjrt::ErrorCode::kResourceExhausted:
      return out_of_memory_error();
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

void bind_errors(py::module_&) {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const graph::CheckError& error) {
      PyErr_SetString(PyExc_IndexError, error.what());
    } catch (const graph::LinearAlgebraError& error) {
      PyErr_SetString(linear_algebra_error(), error.what());
    } catch (const pjrt::Error& error) {
      PyErr_SetString(exception_for(error.code()), error.what());
    }
  });
}

}  // namespace torch_pjrt::python
