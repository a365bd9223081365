#include "aten/accelerator_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "aten/pool_allocator.h"

namespace torch_pjrt::aten {
namespace {

struct Less {
  using Key = std::pair<c10::Device, CopyFigures*>;
  bool operator()(const Key& a, const Key& b) const {
    const auto order = [](const Key& key) {
      return std::tuple(key.first.type(), key.first.index(), key.second);
    };
    return order(a) < order(b);
  }
};

class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator(c10::Device device, CopyFigures& figures)
      : device_(device), figures_(figures) {}

  c10::DataPtr allocate(size_t bytes) override {
    const c10::OptionalDeviceGuard guard(device_.is_cpu() ? std::nullopt : std::optional(device_));
    return allocator_of(device_).allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return allocator_of(device_).raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    figures_.add(bytes);
    copy_memory(to, from, bytes, device_);
  }

 private:
  c10::Device device_;
  CopyFigures& figures_;
};

}  // namespace

c10::Allocator& counting_allocator(c10::Device device, CopyFigures& figures) {
  static auto* const mutex = new std::mutex;
  static auto* const made =
      new std::map<std::pair<c10::Device, CopyFigures*>, std::unique_ptr<CountingAllocator>, Less>;
  const std::lock_guard lock(*mutex);
  auto& allocator = (*made)[{device, &figures}];
  if (!allocator) allocator = std::make_unique<CountingAllocator>(device, figures);
  return *allocator;
}

c10::Allocator& allocator_of(c10::Device device) {
  return device.is_cpu() ? pool_allocator() : *c10::GetAllocator(device.type());
}

void copy_memory(void* to, const void* from, size_t bytes, c10::Device device) {
  if (device.is_cpu()) return pool_allocator().copy_data(to, from, bytes);
  // Not the allocator's own copy, which need not heed the current stream.
  const at::AutoDispatchBelowADInplaceOrView no_gradient;
  const auto array = [&](void* data) {
    return at::for_blob(data, {static_cast<int64_t>(bytes)})
        .options(at::TensorOptions().dtype(at::kByte).device(device))
        .target_device(device)
        .make_tensor();
  };
  array(to).copy_(array(const_cast<void*>(from)));
}

c10::DataPtr private_copy(const void* data, size_t bytes, c10::Device device) {
  const c10::OptionalDeviceGuard guard(device.is_cpu() ? std::nullopt : std::optional(device));
  c10::DataPtr copy = allocator_of(device).allocate(bytes);
  copy_memory(copy.get(), data, bytes, device);
  return copy;
}

}  // namespace torch_pjrt::aten
