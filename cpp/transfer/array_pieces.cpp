#include "transfer/array_pieces.h"

#include <algorithm>

#include "base/inline_vector.h"

namespace torch_pjrt::transfer {

void for_each_piece(const void* data, std::span<const int64_t> dimensions,
                    std::span<const int64_t> byte_strides, size_t item, size_t most_bytes,
                    const std::function<void(const ArrayPiece&)>& visit) {
  using Indices = base::InlineVector<int64_t, 8>;
  // The dimension that is cut: whatever lies within it fits into a piece.
  size_t cut = dimensions.size();
  size_t inner = item;
  while (cut > 0 && inner * static_cast<size_t>(dimensions[cut - 1]) <= most_bytes) {
    inner *= static_cast<size_t>(dimensions[--cut]);
  }
  if (cut == 0) {
    return visit({static_cast<const char*>(data), dimensions, byte_strides, 0, inner});
  }
  --cut;
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(most_bytes / inner));
  Indices sizes(dimensions.subspan(cut));
  const std::span<const int64_t> strides = byte_strides.subspan(cut);
  Indices outer(cut, 0);
  size_t offset = 0;
  for (;;) {
    const char* start = static_cast<const char*>(data);
    for (size_t d = 0; d < cut; ++d) start += outer[d] * byte_strides[d];
    for (int64_t i = 0; i < dimensions[cut]; i += step) {
      sizes[0] = std::min(step, dimensions[cut] - i);
      const size_t bytes = inner * static_cast<size_t>(sizes[0]);
      visit({start + i * byte_strides[cut], sizes, strides, offset, bytes});
      offset += bytes;
    }
    size_t d = cut;
    for (; d > 0; --d) {
      if (++outer[d - 1] < dimensions[d - 1]) break;
      outer[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace torch_pjrt::transfer
