#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace torch_pjrt::transfer {

// Copies between a strided host array and a dense row-major one.
//
// `strided` points at the element with index (0, 0, ...). Byte strides may be negative or zero.
// `item_size` is 1, 2, 4, 8 or 16 bytes; nothing needs to be aligned to it. The two arrays must
// not overlap. An array with a zero dimension copies nothing, one without dimensions one element.
// Work above kParallelBytes is shared with the threads of TransferThreads; the call returns when
// all is copied. Throws std::invalid_argument for another item size or when the counts of
// dimensions and strides differ.

constexpr size_t kParallelBytes = size_t{1} << 20;

void pack(void* dense, const void* strided, std::span<const int64_t> dims,
          std::span<const int64_t> byte_strides, size_t item_size);

// Elements that share an address (zero strides, overlaps) receive one of the values written there.
void unpack(void* strided, const void* dense, std::span<const int64_t> dims,
            std::span<const int64_t> byte_strides, size_t item_size);

// memcpy, shared with the threads of TransferThreads above kParallelBytes.
void parallel_memcpy(void* destination, const void* source, size_t bytes);

// The product of the dimensions (1 without any).
int64_t element_count(std::span<const int64_t> dims) noexcept;

// Whether the strides are those of a dense row-major array. Strides of dimensions of size 1, and
// of arrays without elements, do not count; no strides at all means dense.
bool is_row_major(std::span<const int64_t> dims, std::span<const int64_t> byte_strides,
                  size_t item_size) noexcept;

}  // namespace torch_pjrt::transfer
