#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "pjrt/memory.h"
#include "pjrt/options.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// In bytes, but `allocations`. What the plugin does not tell is empty.
struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> allocations;
  std::optional<int64_t> largest_allocation;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> bytes_reserved;
  std::optional<int64_t> pool_bytes;
};

// Names a device of a client, which owns it. A cheap copy; null by default.
class Device {
 public:
  Device() noexcept = default;
  Device(const PJRT_Api* api, PJRT_Device* device) noexcept : api_(api), device_(device) {}

  explicit operator bool() const noexcept { return device_ != nullptr; }
  PJRT_Device* get() const noexcept { return device_; }
  friend bool operator==(const Device& a, const Device& b) noexcept {
    return a.device_ == b.device_;
  }

  int id() const;                 // unique among all processes
  int local_hardware_id() const;  // of this process; -1 if the device is not addressable
  int process_index() const;
  bool is_addressable() const;
  // The texts live as long as the client.
  std::string_view kind() const;
  std::string_view debug_string() const;
  Options attributes() const;

  Memory default_memory() const;
  std::vector<Memory> memories() const;

  // Empty if the plugin does not count memory.
  std::optional<MemoryStats> memory_stats() const;

 private:
  PJRT_DeviceDescription* description() const;

  const PJRT_Api* api_ = nullptr;
  PJRT_Device* device_ = nullptr;
};

}  // namespace torch_pjrt::pjrt
