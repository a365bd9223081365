#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "aten/accelerators.h"
#include "aten/config.h"
#include "aten/device.h"
#include "aten/dlpack.h"
#include "aten/zero_copy.h"
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
        dlpack::make_versioned(made.array, static_cast<uint32_t>(minor), std::move(made.holder)));
  }
  return capsule_of(dlpack::make_unversioned(made.array, std::move(made.holder)));
}

graph::Executor& executor_at(int device) {
  return aten::executor_of(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(device)));
}

at::Tensor from_dlpack(const py::object& capsule, int device, std::optional<bool> copy) {
  return aten::import_by_dlpack(imported(capsule), executor_at(device), copy);
}

}  // namespace

void bind_zero_copy(py::module_& module) {
  module.def("to_dlpack", &to_dlpack);
  module.def("from_dlpack", &from_dlpack);
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
