#pragma once

#include <cstdint>
#include <string>

#include "base/inline_vector.h"
#include "pjrt/element_type.h"

namespace torch_pjrt::graph {

using pjrt::ElementType;
using Dimensions = base::InlineVector<int64_t, 6>;

// The type of one array in a program: element type and static dimensions, row-major.
struct Type {
  ElementType element = ElementType::kInvalid;
  Dimensions dimensions;

  int64_t rank() const noexcept { return static_cast<int64_t>(dimensions.size()); }
  int64_t element_count() const noexcept {
    int64_t count = 1;
    for (int64_t d : dimensions) count *= d;
    return count;
  }
  int64_t byte_count() const noexcept {
    return (element_count() * pjrt::bit_width(element) + 7) / 8;
  }
  friend bool operator==(const Type& a, const Type& b) noexcept {
    return a.element == b.element && a.dimensions == b.dimensions;
  }
};

// The type as StableHLO writes it, e.g. `tensor<2x3xf32>`, `tensor<i1>`.
std::string to_string(const Type& type);

}  // namespace torch_pjrt::graph
