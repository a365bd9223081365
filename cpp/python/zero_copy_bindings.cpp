#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "aten/accelerators.h"
#include "aten/config.h"
#include "aten/device.h"
#include "aten/dlpack.h"
#include "aten/dlpack_order.h"
#include "aten/shared_storage.h"
#include "aten/storage.h"
#include "aten/zero_copy.h"
#include "graph/lock.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

template <typename Managed>
struct Names;
template <>
struct Names<DLManagedTensor> {
  static constexpr const char* kFresh = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
};
template <>
struct Names<DLManagedTensorVersioned> {
  static constexpr const char* kFresh = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
};

// A capsule frees what it holds unless a consumer took it, which renames the capsule.
template <typename Managed>
py::object capsule_of(Managed* managed) {
  PyObject* capsule = PyCapsule_New(managed, Names<Managed>::kFresh, [](PyObject* self) {
    if (!PyCapsule_IsValid(self, Names<Managed>::kFresh)) return;
    auto* held = static_cast<Managed*>(PyCapsule_GetPointer(self, Names<Managed>::kFresh));
    held->deleter(held);
  });
  if (!capsule) {
    managed->deleter(managed);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

template <typename Managed>
Managed* take(const py::object& capsule) {
  if (!PyCapsule_IsValid(capsule.ptr(), Names<Managed>::kFresh)) return nullptr;
  auto* managed =
      static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), Names<Managed>::kFresh));
  PyCapsule_SetName(capsule.ptr(), Names<Managed>::kUsed);
  return managed;
}

dlpack::ImportedTensor imported(const py::object& capsule) {
  if (auto* managed = take<DLManagedTensorVersioned>(capsule)) {
    return dlpack::ImportedTensor(managed);
  }
  if (auto* managed = take<DLManagedTensor>(capsule)) return dlpack::ImportedTensor(managed);
  throw py::type_error(
      "import an array by DLPack: not a capsule that can be taken; got " +
      std::string(py::repr(capsule)) +
      ", expected a 'dltensor' or 'dltensor_versioned' capsule that nobody took before");
}

using Pair = std::pair<int64_t, int64_t>;

py::object to_dlpack(const at::Tensor& tensor, std::optional<Pair> max_version,
                     std::optional<Pair> device, std::optional<bool> copy,
                     std::optional<int64_t> stream) {
  std::optional<DLDevice> wanted;
  if (device) {
    wanted = DLDevice{static_cast<DLDeviceType>(device->first), static_cast<int>(device->second)};
  }
  aten::DlpackExport made = aten::export_by_dlpack(tensor, wanted, copy, stream);
  if (max_version && max_version->first >= 1) {
    const int64_t minor = max_version->first == 1 ? max_version->second : DLPACK_MINOR_VERSION;
    return capsule_of(
        dlpack::make_versioned(made.array(), static_cast<uint32_t>(minor), std::move(made.holder)));
  }
  return capsule_of(dlpack::make_unversioned(made.array(), std::move(made.holder)));
}

graph::Executor& executor_at(int device) {
  return aten::executor_of(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(device)));
}

at::Tensor from_dlpack(const py::object& capsule, int device, std::optional<bool> copy) {
  return aten::import_by_dlpack(imported(capsule), executor_at(device), copy);
}

// Whether only a variable of the caller's knows the tensor, which the call refers to as well.
bool is_private(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return Py_REFCNT(object) <= 2 && tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

// Whose a tensor is that a compiled graph moves.
enum class Owner {
  kCaller,  // it is shared if the caller wants that
  kGraph,   // an operator of the graph made it; checked, as it may have returned its argument
  kKept,    // the same, of the forward graph, which kept it for backward
};

// `tensor.to(device)` inside a compiled graph. What nobody else knows is shared without anybody's
// consent; `is_unwritten`: nobody will write what is shared.
at::Tensor move(py::handle object, c10::Device device, Owner owner, bool is_unwritten) {
  if (!THPVariable_Check(object.ptr())) throw py::type_error("move: not a tensor");
  const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
  aten::Border border = aten::Border::kAsWanted;
  const bool is_ours =
      owner == Owner::kKept || (owner == Owner::kGraph && is_private(object.ptr()));
  if (is_ours) border = aten::Border::kCopyOnWrite;
  if (is_unwritten && (is_ours || tensor.is_xla())) border = aten::Border::kUnprotected;
  const aten::AtBorder scope(border);
  return tensor.to(device);
}

// Whether others may write the memory of an xla tensor.
bool is_borrowed(const at::Tensor& tensor) {
  const graph::Cell& cell = aten::cell_of(*tensor.storage().unsafeGetStorageImpl());
  graph::RecordingLock lock(graph::recording_mutex());
  const graph::Value& value = cell.value();
  if (!value || !value.node->is_data()) return false;
  const graph::SharedBufferPtr& buffer = value.node->outputs()[value.index].buffer;
  return buffer && buffer->has_outside_writers();
}

// `tensor.to(device)` that is an explicit alias where it can be, and whether it is one.
std::pair<at::Tensor, bool> borrow(const at::Tensor& tensor, c10::Device device) {
  const aten::AtBorder scope(aten::Border::kBorrowed);
  at::Tensor moved = tensor.to(device);
  const bool is_alias = is_borrowed(moved);
  return {std::move(moved), is_alias};
}

}  // namespace

void bind_zero_copy(py::module_& module) {
  module.def("to_dlpack", &to_dlpack);
  module.def("from_dlpack", &from_dlpack);
  py::enum_<Owner>(module, "Owner")
      .value("caller", Owner::kCaller)
      .value("graph", Owner::kGraph)
      .value("kept", Owner::kKept);
  module.def("move", &move);
  module.def("borrow", &borrow);
  module.def("is_borrowed", &is_borrowed);
  module.def("forbid_resize", [](const at::Tensor& tensor) {
    tensor.storage().unsafeGetStorageImpl()->set_resizable(false);
  });
  module.def("data_address", [](const at::Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.storage().data()) +
           static_cast<uintptr_t>(tensor.storage_offset()) * tensor.itemsize();
  });
  module.def("protect", [](const at::Tensor& tensor) {
    if (tensor.has_storage()) aten::protect(*tensor.storage().unsafeGetStorageImpl());
  });
  module.def("remember_zero_copy", &aten::remember_zero_copy);
  module.def("zero_copy_wanted", &aten::zero_copy_wanted);
  module.def("dlpack_device", [](const at::Tensor& tensor) {
    const DLDevice device = aten::dlpack_device(tensor);
    return std::pair(static_cast<int>(device.device_type), static_cast<int>(device.device_id));
  });
  module.def("dlpack_stream", [](int device) { return aten::dlpack_stream(executor_at(device)); });
  module.def("companion", [](int device) {
    const auto companion = aten::companion_of(executor_at(device));
    return companion ? std::optional(companion->str()) : std::nullopt;
  });
  module.def("zero_copy", [] { return aten::config().zero_copy; });
  module.def("set_zero_copy", [](bool on) {
    if (on) aten::remember_zero_copy_on_graphs();
    aten::config().zero_copy = on;
  });
  module.def("choose_zero_copy", [](std::optional<bool> choice) {
    if (choice.value_or(false)) aten::remember_zero_copy_on_graphs();
    return aten::choose_zero_copy(choice);
  });
}

}  // namespace torch_pjrt::python
