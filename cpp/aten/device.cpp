#include "aten/device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "aten/errors.h"
#include "graph/runtime.h"

namespace torch_pjrt::aten {
namespace {

thread_local int current = 0;

// A device has one stream: its executor runs what is recorded in order.
class XlaGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::DeviceType static_type = c10::kXLA;

  c10::DeviceType type() const override { return c10::kXLA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    if (device.has_index()) current = device.index();
    return old;
  }
  c10::Device getDevice() const override {
    return {c10::kXLA, static_cast<c10::DeviceIndex>(current)};
  }
  void setDevice(c10::Device device) const override {
    if (device.has_index()) current = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(graph::runtime::device_count());
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream& stream) const override {
    translate_errors([&] { executor_of(stream.device()).synchronize(); });
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    translate_errors([&] { graph::runtime::executor(index).synchronize(); });
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

C10_REGISTER_GUARD_IMPL(XLA, XlaGuard);

}  // namespace

int current_device() noexcept { return current; }
void set_current_device(int index) noexcept { current = index; }

graph::Executor& executor_of(c10::Device device) {
  return graph::runtime::executor(device.has_index() ? device.index() : current);
}

graph::Executor& executor_of(std::optional<c10::Device> device) {
  if (device) return executor_of(*device);
  return graph::runtime::executor(current);
}

}  // namespace torch_pjrt::aten
