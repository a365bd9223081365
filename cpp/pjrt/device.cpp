#include "pjrt/device.h"

#include "pjrt/call.h"

namespace torch_pjrt::pjrt {

PJRT_DeviceDescription* Device::description() const {
  TORCH_PJRT_ARGS(PJRT_Device_GetDescription, args);
  args.device = device_;
  TORCH_PJRT_CALL(api_, PJRT_Device_GetDescription, args, "read a device's description");
  return args.device_description;
}

int Device::id() const {
  TORCH_PJRT_ARGS(PJRT_DeviceDescription_Id, args);
  args.device_description = description();
  TORCH_PJRT_CALL(api_, PJRT_DeviceDescription_Id, args, "read a device's id");
  return args.id;
}

int Device::local_hardware_id() const {
  TORCH_PJRT_ARGS(PJRT_Device_LocalHardwareId, args);
  args.device = device_;
  TORCH_PJRT_CALL(api_, PJRT_Device_LocalHardwareId, args, "read a device's hardware id");
  return args.local_hardware_id;
}

int Device::process_index() const {
  TORCH_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex, args);
  args.device_description = description();
  TORCH_PJRT_CALL(api_, PJRT_DeviceDescription_ProcessIndex, args, "read a device's process");
  return args.process_index;
}

bool Device::is_addressable() const {
  TORCH_PJRT_ARGS(PJRT_Device_IsAddressable, args);
  args.device = device_;
  TORCH_PJRT_CALL(api_, PJRT_Device_IsAddressable, args, "ask whether a device is addressable");
  return args.is_addressable;
}

std::string_view Device::kind() const {
  TORCH_PJRT_ARGS(PJRT_DeviceDescription_Kind, args);
  args.device_description = description();
  TORCH_PJRT_CALL(api_, PJRT_DeviceDescription_Kind, args, "read a device's kind");
  return {args.device_kind, args.device_kind_size};
}

std::string_view Device::debug_string() const {
  TORCH_PJRT_ARGS(PJRT_DeviceDescription_DebugString, args);
  args.device_description = description();
  TORCH_PJRT_CALL(api_, PJRT_DeviceDescription_DebugString, args, "describe a device");
  return {args.debug_string, args.debug_string_size};
}

Options Device::attributes() const {
  TORCH_PJRT_ARGS(PJRT_DeviceDescription_Attributes, args);
  args.device_description = description();
  TORCH_PJRT_CALL(api_, PJRT_DeviceDescription_Attributes, args, "read a device's attributes");
  return from_named_values(args.attributes, args.num_attributes);
}

Memory Device::default_memory() const {
  TORCH_PJRT_ARGS(PJRT_Device_DefaultMemory, args);
  args.device = device_;
  TORCH_PJRT_CALL(api_, PJRT_Device_DefaultMemory, args, "find a device's default memory");
  return {api_, args.memory};
}

std::vector<Memory> Device::memories() const {
  TORCH_PJRT_ARGS(PJRT_Device_AddressableMemories, args);
  args.device = device_;
  TORCH_PJRT_CALL(api_, PJRT_Device_AddressableMemories, args, "list a device's memories");
  std::vector<Memory> memories;
  for (size_t i = 0; i < args.num_memories; ++i) memories.emplace_back(api_, args.memories[i]);
  return memories;
}

std::optional<MemoryStats> Device::memory_stats() const {
  if (!has_function(api_, &PJRT_Api::PJRT_Device_MemoryStats)) return std::nullopt;
  TORCH_PJRT_ARGS(PJRT_Device_MemoryStats, args);
  args.device = device_;
  try {
    TORCH_PJRT_CALL(api_, PJRT_Device_MemoryStats, args, "read a device's memory figures");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnimplemented) return std::nullopt;
    throw;
  }
  const auto told = [](int64_t value, bool is_set) {
    return is_set ? std::optional<int64_t>(value) : std::nullopt;
  };
  MemoryStats stats;
  stats.bytes_in_use = args.bytes_in_use;
  stats.peak_bytes_in_use = told(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set);
  stats.allocations = told(args.num_allocs, args.num_allocs_is_set);
  stats.largest_allocation = told(args.largest_alloc_size, args.largest_alloc_size_is_set);
  stats.bytes_limit = told(args.bytes_limit, args.bytes_limit_is_set);
  stats.bytes_reserved = told(args.bytes_reserved, args.bytes_reserved_is_set);
  stats.pool_bytes = told(args.pool_bytes, args.pool_bytes_is_set);
  return stats;
}

}  // namespace torch_pjrt::pjrt
