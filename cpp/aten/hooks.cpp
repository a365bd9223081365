#include <ATen/detail/XLAHooksInterface.h>

#include "aten/device.h"
#include "aten/generator.h"
#include "graph/runtime.h"

// PyTorch looks the hooks of device xla up under this name.
namespace torch_xla::detail {

struct XLAHooks final : public at::XLAHooksInterface {
  XLAHooks() = default;
  explicit XLAHooks(const at::XLAHooksArgs&) {}  // PyTorch before 2.13 passes them, empty

  bool hasXLA() const override { return true; }
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(torch_pjrt::graph::runtime::device_count());
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(torch_pjrt::aten::current_device());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override {
    torch_pjrt::aten::set_current_device(index);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex old = getCurrentDevice();
    if (index >= 0) torch_pjrt::aten::set_current_device(index);
    return old;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index = -1) const override {
    return torch_pjrt::aten::default_generator(index < 0 ? getCurrentDevice() : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index = -1) const override {
    return at::make_generator<torch_pjrt::aten::XlaGenerator>(index < 0 ? getCurrentDevice()
                                                                        : index);
  }
};

}  // namespace torch_xla::detail

namespace at {
C10_REGISTER_TYPED_CLASS(XLAHooksRegistry, "torch_xla::detail::XLAHooks",
                         torch_xla::detail::XLAHooks)
}  // namespace at
