#pragma once

#include <atomic>

#include "pjrt/element_type.h"

namespace torch_pjrt::graph {

// Whether the devices of this process hold 64-bit integers and floats. Set once the client is
// known; emissions then use what is there for what they count and index with.
struct WideElements {
  std::atomic<bool> has_s64{true};
  std::atomic<bool> has_f64{true};
};
inline WideElements& wide_elements() noexcept {
  static WideElements instance;
  return instance;
}

// The element type in which the devices hold `element`: s64 and f64 as s32 and f32 where they lack
// them.
inline pjrt::ElementType held(pjrt::ElementType element) noexcept {
  using pjrt::ElementType;
  if (element == ElementType::kS64 && !wide_elements().has_s64) return ElementType::kS32;
  if (element == ElementType::kF64 && !wide_elements().has_f64) return ElementType::kF32;
  return element;
}

}  // namespace torch_pjrt::graph
