#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_pjrt::graph {

// A program's identity: two programs with the same key have the same text.
struct ProgramKey {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const ProgramKey&, const ProgramKey&) noexcept = default;
};
struct ProgramKeyHash {
  size_t operator()(const ProgramKey& key) const noexcept { return key.low; }
};

}  // namespace torch_pjrt::graph
