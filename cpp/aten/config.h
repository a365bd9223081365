#pragma once

namespace torch_pjrt::aten {

// Switches of this layer, set from Python (torch_pjrt.config). Read without a lock: a change while
// another thread records takes effect there some operators later.
struct Config {
  bool check_indices = true;  // let the device check indices, see check_index_range
  bool zero_copy = false;     // share the memory of what is copied to a device, see zero_copy.h
};

inline Config& config() noexcept {
  static Config config;
  return config;
}

}  // namespace torch_pjrt::aten
