#include "aten/accelerator_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include "aten/pool_allocator.h"

namespace torch_pjrt::aten {

c10::Allocator& allocator_of(c10::Device device) {
  return device.is_cpu() ? pool_allocator() : *c10::GetAllocator(device.type());
}

c10::DataPtr private_copy(const void* data, size_t bytes, c10::Device device) {
  if (device.is_cpu()) return pool_allocator().clone(data, bytes);
  const c10::DeviceGuard guard(device);
  c10::DataPtr copy = allocator_of(device).allocate(bytes);
  // Not the allocator's own copy, which need not heed the current stream.
  const at::AutoDispatchBelowADInplaceOrView no_gradient;
  const auto array = [&](void* bytes_at) {
    return at::for_blob(bytes_at, {static_cast<int64_t>(bytes)})
        .options(at::TensorOptions().dtype(at::kByte).device(device))
        .target_device(device)
        .make_tensor();
  };
  array(copy.get()).copy_(array(const_cast<void*>(data)));
  return copy;
}

}  // namespace torch_pjrt::aten
