#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "transfer/streaming_copy.h"

namespace torch_pjrt::transfer {

// The inner loops of strided_copy.cpp: a plane of items from one set of byte strides to another.

struct Item16 {
  uint64_t low, high;
};

struct Plane {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t to_row = 0, to_column = 0;  // byte strides
  int64_t from_row = 0, from_column = 0;
  bool crossed = false;    // the source advances least along the rows: a transposition
  bool streaming = false;  // the copy is too large for the caches
};

template <typename T>
inline T load(const char* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
inline void store(char* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

// Strides that the compiler knows become vector code.
template <typename T, int64_t ToItems, int64_t FromItems>
inline void copy_row_fixed(char* to, const char* from, int64_t count) noexcept {
  constexpr int64_t item = sizeof(T);
  for (int64_t i = 0; i < count; ++i) {
    store(to + i * ToItems * item, load<T>(from + i * FromItems * item));
  }
}

// Bytes of a short row, without a call.
inline void copy_short(char* to, const char* from, size_t bytes) noexcept {
  if (bytes >= 16) {
    size_t i = 0;
    for (; i + 16 <= bytes; i += 16) store(to + i, load<Item16>(from + i));
    store(to + bytes - 16, load<Item16>(from + bytes - 16));
  } else if (bytes >= 8) {
    const auto a = load<uint64_t>(from), b = load<uint64_t>(from + bytes - 8);
    store(to, a);
    store(to + bytes - 8, b);
  } else if (bytes >= 4) {
    const auto a = load<uint32_t>(from), b = load<uint32_t>(from + bytes - 4);
    store(to, a);
    store(to + bytes - 4, b);
  } else {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

template <typename T>
inline void copy_row(char* to, const char* from, int64_t count, int64_t to_stride,
                     int64_t from_stride) noexcept {
  constexpr int64_t item = sizeof(T);
  if (to_stride == item) {
    if (from_stride == item) {
      const size_t bytes = count * item;
      if (bytes <= 128) return copy_short(to, from, bytes);
      std::memcpy(to, from, bytes);
      return;
    }
    if (from_stride == 0) return copy_row_fixed<T, 1, 0>(to, from, count);
    if (from_stride == 2 * item) return copy_row_fixed<T, 1, 2>(to, from, count);
    if (from_stride == -item) return copy_row_fixed<T, 1, -1>(to, from, count);
  } else if (from_stride == item) {
    if (to_stride == 2 * item) return copy_row_fixed<T, 2, 1>(to, from, count);
    if (to_stride == -item) return copy_row_fixed<T, -1, 1>(to, from, count);
  }
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const T a = load<T>(from), b = load<T>(from + from_stride), c = load<T>(from + 2 * from_stride),
            d = load<T>(from + 3 * from_stride);
    store(to, a);
    store(to + to_stride, b);
    store(to + 2 * to_stride, c);
    store(to + 3 * to_stride, d);
    to += 4 * to_stride;
    from += 4 * from_stride;
  }
  for (; i < count; ++i, to += to_stride, from += from_stride) store(to, load<T>(from));
}

// The first (kHigh: the last) halves of two registers, item by item in turn.
template <typename T, bool kHigh, typename Vector, size_t... kItem>
inline Vector interleave(Vector a, Vector b, std::index_sequence<kItem...>) noexcept {
  constexpr size_t n = sizeof...(kItem);
  constexpr size_t start = kHigh ? n / 2 : 0;
#if defined(__clang__)
  return __builtin_shufflevector(a, b, (start + kItem / 2 + kItem % 2 * n)...);
#else  // GCC has __builtin_shufflevector only from version 12 on
  return __builtin_shuffle(a, b, Vector{static_cast<T>(start + kItem / 2 + kItem % 2 * n)...});
#endif
}

// Transposes a square of registers: N rows of N items in 16 bytes each. Interleaving row i with
// row i + N/2 log2(N) times does it.
template <typename T>
inline void transpose_square(const char* from, int64_t from_stride, char* to,
                             int64_t to_stride) noexcept {
  if constexpr (sizeof(T) == 16) {
    store(to, load<T>(from));
  } else {
    constexpr int n = 16 / sizeof(T);
    typedef T Vector __attribute__((vector_size(16)));
    constexpr auto items = std::make_index_sequence<n>();
    Vector rows[n], mixed[n];
    for (int i = 0; i < n; ++i) rows[i] = load<Vector>(from + i * from_stride);
    for (int round = 1; round < n; round *= 2) {
      for (int i = 0; i < n / 2; ++i) {
        mixed[2 * i] = interleave<T, false>(rows[i], rows[i + n / 2], items);
        mixed[2 * i + 1] = interleave<T, true>(rows[i], rows[i + n / 2], items);
      }
      for (int i = 0; i < n; ++i) rows[i] = mixed[i];
    }
    for (int i = 0; i < n; ++i) store(to + i * to_stride, rows[i]);
  }
}

// to[r][c] = from[c][r], both contiguous along their last index. Works in tiles of one cache line
// a side: each line of the source is read, and each of the target written, once and whole, however
// the strides fall on the cache's sets. The tiles follow the source's lines, which the prefetchers
// like best.
template <typename T, bool kStreaming>
void transpose_plane(char* to, const char* from, const Plane& plane) noexcept {
  constexpr int64_t item = sizeof(T), square = 16 / item, tile = 64 / item;
  const int64_t full_rows = plane.rows - plane.rows % tile;
  const int64_t full_columns = plane.columns - plane.columns % tile;
  alignas(64) char lines[tile * 64];
  for (int64_t c = 0; c < full_columns; c += tile) {
    for (int64_t r = 0; r < full_rows; r += tile) {
      const char* const source = from + r * item + c * plane.from_column;
      for (int64_t j = 0; j < tile; j += square) {    // source lines
        for (int64_t i = 0; i < tile; i += square) {  // along each line
          transpose_square<T>(source + j * plane.from_column + i * item, plane.from_column,
                              lines + i * 64 + j * item, 64);
        }
      }
      char* const target = to + r * plane.to_row + c * item;
      for (int64_t i = 0; i < tile; ++i) {
        if constexpr (kStreaming) {
          stream_line(target + i * plane.to_row, lines + i * 64);
        } else {
          std::memcpy(target + i * plane.to_row, lines + i * 64, 64);
        }
      }
    }
  }
  const auto edge = [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    for (int64_t r = r0; r < r1; ++r) {
      for (int64_t c = c0; c < c1; ++c) {
        store(to + r * plane.to_row + c * item, load<T>(from + c * plane.from_column + r * item));
      }
    }
  };
  edge(0, full_rows, full_columns, plane.columns);
  edge(full_rows, plane.rows, 0, plane.columns);
}

template <typename T>
void copy_plane(char* to, const char* from, const Plane& plane) noexcept {
  constexpr int64_t item = sizeof(T);
  if (!plane.crossed) {
    if (plane.streaming && plane.to_column == item && plane.from_column == item &&
        plane.columns * item >= 4096) {
      for (int64_t r = 0; r < plane.rows; ++r) {
        stream_bytes(to + r * plane.to_row, from + r * plane.from_row, plane.columns * item);
      }
      return;
    }
    for (int64_t r = 0; r < plane.rows; ++r) {
      copy_row<T>(to + r * plane.to_row, from + r * plane.from_row, plane.columns, plane.to_column,
                  plane.from_column);
    }
    return;
  }
  if (plane.to_column == item && plane.from_row == item && plane.rows >= 16 / item &&
      plane.columns >= 16 / item) {
    const bool whole_lines = (reinterpret_cast<uintptr_t>(to) | plane.to_row) % 64 == 0;
    if (plane.streaming && whole_lines) {
      transpose_plane<T, true>(to, from, plane);
    } else {
      transpose_plane<T, false>(to, from, plane);
    }
    return;
  }
  // Blocks that fit the first cache on both sides, walked along their longer side.
  const bool along_rows = plane.columns < 16 && plane.rows > plane.columns;
  const int64_t block_columns = along_rows ? plane.columns : plane.rows < 16 ? 512 : 64;
  const int64_t block_rows = along_rows ? 512 : 16;
  for (int64_t c0 = 0; c0 < plane.columns; c0 += block_columns) {
    const int64_t columns = std::min(block_columns, plane.columns - c0);
    for (int64_t r0 = 0; r0 < plane.rows; r0 += block_rows) {
      const int64_t rows = std::min(block_rows, plane.rows - r0);
      char* const target = to + r0 * plane.to_row + c0 * plane.to_column;
      const char* const source = from + r0 * plane.from_row + c0 * plane.from_column;
      if (along_rows) {
        for (int64_t c = 0; c < columns; ++c) {
          copy_row<T>(target + c * plane.to_column, source + c * plane.from_column, rows,
                      plane.to_row, plane.from_row);
        }
      } else {
        for (int64_t r = 0; r < rows; ++r) {
          copy_row<T>(target + r * plane.to_row, source + r * plane.from_row, columns,
                      plane.to_column, plane.from_column);
        }
      }
    }
  }
}

}  // namespace torch_pjrt::transfer
