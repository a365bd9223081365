#include "pjrt/memory.h"

#include "pjrt/call.h"
#include "pjrt/device.h"

namespace torch_pjrt::pjrt {

int Memory::id() const {
  TORCH_PJRT_ARGS(PJRT_Memory_Id, args);
  args.memory = memory_;
  TORCH_PJRT_CALL(api_, PJRT_Memory_Id, args, "read a memory's id");
  return args.id;
}

std::string_view Memory::kind() const {
  TORCH_PJRT_ARGS(PJRT_Memory_Kind, args);
  args.memory = memory_;
  TORCH_PJRT_CALL(api_, PJRT_Memory_Kind, args, "read a memory's kind");
  return {args.kind, args.kind_size};
}

std::string_view Memory::debug_string() const {
  TORCH_PJRT_ARGS(PJRT_Memory_DebugString, args);
  args.memory = memory_;
  TORCH_PJRT_CALL(api_, PJRT_Memory_DebugString, args, "describe a memory");
  return {args.debug_string, args.debug_string_size};
}

std::vector<Device> Memory::devices() const {
  TORCH_PJRT_ARGS(PJRT_Memory_AddressableByDevices, args);
  args.memory = memory_;
  TORCH_PJRT_CALL(api_, PJRT_Memory_AddressableByDevices, args, "list the devices of a memory");
  std::vector<Device> devices;
  for (size_t i = 0; i < args.num_devices; ++i) devices.emplace_back(api_, args.devices[i]);
  return devices;
}

}  // namespace torch_pjrt::pjrt
