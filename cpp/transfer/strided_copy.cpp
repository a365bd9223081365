#include "transfer/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/inline_vector.h"
#include "transfer/streaming_copy.h"
#include "transfer/strided_kernels.h"
#include "transfer/transfer_threads.h"

namespace torch_pjrt::transfer {
namespace {

constexpr size_t kMaxInlineDims = 8;

struct Dim {
  int64_t size;
  int64_t to;  // byte strides of both sides
  int64_t from;
};
using Dims = base::InlineVector<Dim, kMaxInlineDims>;

// One copy: dimensions without size 1, neighbours merged where both sides allow it.
struct Copy {
  char* to;
  const char* from;
  size_t item;
  Dims dims;
  bool streaming = false;
};

int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

void merge_dims(Copy& copy) {
  Dims merged;
  for (const Dim& dim : copy.dims) {
    if (dim.size == 1) continue;
    if (!merged.empty()) {
      Dim& outer = merged.back();
      if (outer.to == dim.to * dim.size && outer.from == dim.from * dim.size) {
        outer = {outer.size * dim.size, dim.to, dim.from};
        continue;
      }
    }
    merged.push_back(dim);
  }
  // A short contiguous row is one wider item.
  while (!merged.empty()) {
    const Dim row = merged.back();
    const int64_t item = static_cast<int64_t>(copy.item), bytes = item * row.size;
    if (row.to != item || row.from != item || bytes > 16 || (bytes & (bytes - 1))) break;
    copy.item = bytes;
    merged.pop_back();
  }
  copy.dims = std::move(merged);
}

// The dimension in which one side advances least; zero strides do not advance.
size_t fastest_dim(const Dims& dims, int64_t Dim::* stride) {
  size_t best = dims.size();
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].*stride == 0) continue;
    if (best == dims.size() || magnitude(dims[i].*stride) < magnitude(dims[best].*stride)) best = i;
  }
  return best == dims.size() ? dims.size() - 1 : best;
}

template <typename T>
void copy_inner(const Copy& copy, const Dims& outer, const Plane& plane) {
  // An odometer over the outer dimensions; the plane kernel does the two inner ones.
  base::InlineVector<int64_t, kMaxInlineDims> index(outer.size(), 0);
  char* to = copy.to;
  const char* from = copy.from;
  for (;;) {
    copy_plane<T>(to, from, plane);
    size_t d = outer.size();
    for (; d > 0; --d) {
      const Dim& dim = outer[d - 1];
      to += dim.to;
      from += dim.from;
      if (++index[d - 1] < dim.size) break;
      to -= dim.to * dim.size;
      from -= dim.from * dim.size;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

void copy_serial(const Copy& copy) {
  Dims outer = copy.dims;
  Plane plane;
  plane.streaming = copy.streaming;
  if (!outer.empty()) {
    size_t row = fastest_dim(outer, &Dim::to);
    const size_t source_row = fastest_dim(outer, &Dim::from);
    const bool crossed = source_row != row && outer[row].from != 0 && outer[source_row].to != 0;
    plane.columns = outer[row].size;
    plane.to_column = outer[row].to;
    plane.from_column = outer[row].from;
    size_t second = source_row;
    if (!crossed) second = row > 0 ? row - 1 : 1;  // the nearest, for long runs without odometer
    if (outer.size() > 1) {
      plane.rows = outer[second].size;
      plane.to_row = outer[second].to;
      plane.from_row = outer[second].from;
      plane.crossed = crossed;
      outer.erase(std::max(row, second));
      outer.erase(std::min(row, second));
    } else {
      outer.clear();
    }
  }
  switch (copy.item) {
    case 1:
      return copy_inner<uint8_t>(copy, outer, plane);
    case 2:
      return copy_inner<uint16_t>(copy, outer, plane);
    case 4:
      return copy_inner<uint32_t>(copy, outer, plane);
    case 8:
      return copy_inner<uint64_t>(copy, outer, plane);
    default:
      return copy_inner<Item16>(copy, outer, plane);
  }
}

void copy_piece(const Copy& copy) {
  copy_serial(copy);
  if (copy.streaming) end_streaming();
}

size_t bytes_of(const Copy& copy) {
  size_t bytes = copy.item;
  for (const Dim& dim : copy.dims) bytes *= dim.size;
  return bytes;
}

// Halves the outermost dimension again and again; cuts at multiples of 64 elements where there
// are as many, so that two threads do not write the same cache line more than need be.
void split(const Copy& copy, size_t pieces, std::vector<Copy>& result) {
  if (pieces <= 1 || bytes_of(copy) <= kParallelBytes / 8) {
    result.push_back(copy);
    return;
  }
  size_t d = 0;
  while (copy.dims[d].size == 1 && d + 1 < copy.dims.size()) ++d;
  int64_t half = copy.dims[d].size / 2;
  if (half >= 64) half -= half % 64;
  if (half == 0) {
    result.push_back(copy);
    return;
  }
  Copy first = copy, second = copy;
  first.dims[d].size = half;
  second.dims[d].size -= half;
  second.to += half * copy.dims[d].to;
  second.from += half * copy.dims[d].from;
  split(first, pieces / 2, result);
  split(second, pieces - pieces / 2, result);
}

void copy_strided(Copy& copy, bool may_split) {
  merge_dims(copy);
  copy.streaming = bytes_of(copy) >= kStreamingBytes;
  if (bytes_of(copy) <= kParallelBytes || !may_split || TransferThreads::count() == 1) {
    copy_piece(copy);
    return;
  }
  std::vector<Copy> pieces;
  split(copy, TransferThreads::count() * 8, pieces);
  TransferThreads::run(pieces.size(), [&](size_t i) { copy_piece(pieces[i]); });
}

void check(const char* what, std::span<const int64_t> dims, std::span<const int64_t> byte_strides,
           size_t item_size) {
  if (item_size == 0 || item_size > 16 || (item_size & (item_size - 1))) {
    throw std::invalid_argument(std::string(what) + ": the item size is not supported; got " +
                                std::to_string(item_size) + ", expected 1, 2, 4, 8 or 16 bytes");
  }
  if (dims.size() != byte_strides.size()) {
    throw std::invalid_argument(std::string(what) + ": each dimension needs a stride; got " +
                                std::to_string(byte_strides.size()) + " strides, expected " +
                                std::to_string(dims.size()));
  }
}

}  // namespace

void pack(void* dense, const void* strided, std::span<const int64_t> dims,
          std::span<const int64_t> byte_strides, size_t item_size) {
  check("pack", dims, byte_strides, item_size);
  if (element_count(dims) == 0) return;
  Copy copy{static_cast<char*>(dense), static_cast<const char*>(strided), item_size, {}, false};
  copy.dims.resize(dims.size());
  int64_t stride = static_cast<int64_t>(item_size);
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) {
    copy.dims[i] = {dims[i], stride, byte_strides[i]};
  }
  copy_strided(copy, true);
}

void unpack(void* strided, const void* dense, std::span<const int64_t> dims,
            std::span<const int64_t> byte_strides, size_t item_size) {
  check("unpack", dims, byte_strides, item_size);
  if (element_count(dims) == 0) return;
  Copy copy{static_cast<char*>(strided), static_cast<const char*>(dense), item_size, {}, false};
  copy.dims.resize(dims.size());
  int64_t stride = static_cast<int64_t>(item_size);
  bool distinct = true;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) {
    copy.dims[i] = {dims[i], byte_strides[i], stride};
    distinct &= byte_strides[i] != 0 || dims[i] == 1;
  }
  copy_strided(copy, distinct);  // two threads must not write one address
}

void parallel_memcpy(void* destination, const void* source, size_t bytes) {
  if (bytes == 0) return;
  const bool streaming = bytes >= kStreamingBytes;
  const auto copy = [&](size_t start, size_t count) {
    char* const to = static_cast<char*>(destination) + start;
    const char* const from = static_cast<const char*>(source) + start;
    if (streaming) {
      stream_bytes(to, from, count);
      end_streaming();
    } else {
      std::memcpy(to, from, count);
    }
  };
  if (bytes <= kParallelBytes || TransferThreads::count() == 1) {
    copy(0, bytes);
    return;
  }
  const size_t wanted = TransferThreads::count() * 4;
  const size_t piece = std::max<size_t>((bytes / wanted + 4095) & ~size_t{4095}, 256 << 10);
  TransferThreads::run((bytes + piece - 1) / piece,
                       [&](size_t i) { copy(i * piece, std::min(piece, bytes - i * piece)); });
}

int64_t element_count(std::span<const int64_t> dims) noexcept {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

bool is_row_major(std::span<const int64_t> dims, std::span<const int64_t> byte_strides,
                  size_t item_size) noexcept {
  if (byte_strides.empty() || element_count(dims) == 0) return true;
  int64_t stride = static_cast<int64_t>(item_size);
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) {
    if (dims[i] != 1 && byte_strides[i] != stride) return false;
  }
  return true;
}

}  // namespace torch_pjrt::transfer
