#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace torch_pjrt::transfer {

// One part of an array: a run of its elements in row-major order.
struct ArrayPiece {
  const char* data;  // the first element
  std::span<const int64_t> dimensions;
  std::span<const int64_t> byte_strides;
  size_t offset;  // in the dense array, in bytes
  size_t bytes;
};

// Cuts a strided array into pieces of at most `most_bytes` (or one element) that cover it in
// row-major order, and visits each. Not empty; a stride a dimension.
void for_each_piece(const void* data, std::span<const int64_t> dimensions,
                    std::span<const int64_t> byte_strides, size_t item, size_t most_bytes,
                    const std::function<void(const ArrayPiece&)>& visit);

}  // namespace torch_pjrt::transfer
