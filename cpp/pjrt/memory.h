#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

class Device;

// Names a memory space of a client, which owns it. A cheap copy; null by default.
class Memory {
 public:
  Memory() noexcept = default;
  Memory(const PJRT_Api* api, PJRT_Memory* memory) noexcept : api_(api), memory_(memory) {}

  explicit operator bool() const noexcept { return memory_ != nullptr; }
  PJRT_Memory* get() const noexcept { return memory_; }
  friend bool operator==(const Memory& a, const Memory& b) noexcept {
    return a.memory_ == b.memory_;
  }

  int id() const;
  // "device", "pinned_host", "unpinned_host"... The text lives as long as the client.
  std::string_view kind() const;
  std::string_view debug_string() const;
  std::vector<Device> devices() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Memory* memory_ = nullptr;
};

}  // namespace torch_pjrt::pjrt
