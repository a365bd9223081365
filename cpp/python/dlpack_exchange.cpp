// torch.Tensor.__dlpack_c_exchange_api__ for xla tensors: DLPack's table of C functions, which
// consumers call instead of __dlpack__.
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>

#include "aten/dlpack.h"
#include "aten/errors.h"
#include "dlpack/data_type.h"
#include "dlpack/exported_tensor.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

constexpr const char* kName = "dlpack_exchange_api";

#if DLPACK_MAJOR_VERSION == 1 && DLPACK_MINOR_VERSION >= 3

// PyTorch's, and one that differs for xla tensors. Both live as long as the process: consumers
// keep them.
const DLPackExchangeAPI* stock = nullptr;
DLPackExchangeAPI ours{};

// Unlike __dlpack__, PyTorch's table takes tensors that need a gradient.
aten::DlpackExport exported(const at::Tensor& tensor) {
  return aten::export_by_dlpack(tensor.detach(), std::nullopt, std::nullopt, std::nullopt);
}

bool is_xla(void* object) {
  auto* const python = static_cast<PyObject*>(object);
  return THPVariable_Check(python) && THPVariable_Unpack(python).is_xla();
}

int give(void* object, DLManagedTensorVersioned** out) {
  if (!is_xla(object)) return stock->managed_tensor_from_py_object_no_sync(object, out);
  HANDLE_TH_ERRORS
  aten::translate_errors([&] {
    auto made = exported(THPVariable_Unpack(static_cast<PyObject*>(object)));
    *out = dlpack::make_versioned(made.array(), DLPACK_MINOR_VERSION, std::move(made.holder));
  });
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

// For the time of one call of the consumer's, which owns nothing.
int lend(void* object, DLTensor* out) {
  if (!is_xla(object)) return stock->dltensor_from_py_object_no_sync(object, out);
  HANDLE_TH_ERRORS
  aten::translate_errors([&] {
    const at::Tensor& tensor = THPVariable_Unpack(static_cast<PyObject*>(object));
    const DLDevice device = aten::dlpack_device(tensor);
    TORCH_CHECK_BUFFER(
        device.device_type == kDLCPU,
        "lend a tensor by DLPack for one call: work on an accelerator's streams may outlive the "
        "call and the memory; got a tensor of ",
        tensor.device(), " on DLPack device type ", static_cast<int>(device.device_type),
        ", expected 1 (CPU); take it by managed_tensor_from_py_object_no_sync or __dlpack__()");
    const aten::DlpackExport made = exported(tensor);
    out->data = made.data;
    out->device = made.device;
    out->ndim = static_cast<int32_t>(tensor.dim());
    out->dtype = dlpack::data_type(made.type);
    out->shape = const_cast<int64_t*>(tensor.sizes().data());
    out->strides = const_cast<int64_t*>(tensor.strides().data());
    out->byte_offset = 0;
  });
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

// The capsule for torch.Tensor, from PyTorch's; that itself where it speaks another version.
py::object exchange_api(const py::object& stock_capsule) {
  auto* const header =
      static_cast<DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(stock_capsule.ptr(), kName));
  if (!header) throw py::error_already_set();
  if (header->version.major != DLPACK_MAJOR_VERSION) return stock_capsule;
  if (!stock) {
    stock = reinterpret_cast<const DLPackExchangeAPI*>(header);
    ours = *stock;
    ours.managed_tensor_from_py_object_no_sync = &give;
    if (stock->dltensor_from_py_object_no_sync) ours.dltensor_from_py_object_no_sync = &lend;
  }
  PyObject* const capsule = PyCapsule_New(&ours, kName, nullptr);
  if (!capsule) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(capsule);
}

#else

py::object exchange_api(const py::object& stock_capsule) { return stock_capsule; }

#endif

}  // namespace

void bind_dlpack_exchange(py::module_& module) { module.def("dlpack_exchange_api", &exchange_api); }

}  // namespace torch_pjrt::python
