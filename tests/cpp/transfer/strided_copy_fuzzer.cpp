// The strided copies on layouts that the input spells, against a naive loop, inside guard bytes.
// With clang it is a libFuzzer target; else `main` feeds it random inputs:
//   strided_copy_fuzzer [inputs] [seed]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "transfer/array_pieces.h"
#include "transfer/strided_copy.h"

using namespace torch_pjrt::transfer;

namespace {

struct Reader {
  const uint8_t* data;
  size_t size;
  uint8_t next() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
};

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "strided_copy_fuzzer: %s\n", what);
  std::abort();
}

struct Layout {
  size_t item;
  std::vector<int64_t> dims, strides;
  int64_t low = 0, high = 0;  // reach of the strides, in bytes
};

Layout read_layout(Reader& reader) {
  Layout layout;
  layout.item = size_t{1} << (reader.next() % 5);
  const size_t rank = reader.next() % 8;
  int64_t count = 1;
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = reader.next() % 40;
    if (count * std::max<int64_t>(size, 1) > 4096) size = 1;
    count *= std::max<int64_t>(size, 1);
    // Multiples of the item mostly, any byte stride sometimes, and zero.
    int64_t stride = static_cast<int8_t>(reader.next());
    if (reader.next() % 4) stride *= static_cast<int64_t>(layout.item);
    layout.dims.push_back(size);
    layout.strides.push_back(stride);
    if (size > 1) (stride < 0 ? layout.low : layout.high) += (size - 1) * stride;
  }
  return layout;
}

constexpr size_t kGuard = 64;
constexpr char kGuardByte = 0x5A;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader{data, size};
  const Layout layout = read_layout(reader);
  const size_t count = static_cast<size_t>(element_count(layout.dims));
  const size_t bytes = count * layout.item;
  const size_t span = static_cast<size_t>(layout.high - layout.low) + layout.item;
  std::vector<char> storage(span + 2 * kGuard, kGuardByte);
  for (size_t i = 0; i < span; ++i) storage[kGuard + i] = static_cast<char>(reader.next() + i * 7);
  char* const first = storage.data() + kGuard - layout.low;

  std::vector<char> naive(bytes), dense(bytes + 2 * kGuard, kGuardByte);
  std::vector<int64_t> offsets(count);
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    for (size_t d = layout.dims.size(); d-- > 0;) {
      const auto dim = static_cast<size_t>(layout.dims[d]);
      offsets[i] += static_cast<int64_t>(rest % dim) * layout.strides[d];
      rest /= dim;
    }
    std::memcpy(&naive[i * layout.item], first + offsets[i], layout.item);
  }
  pack(dense.data() + kGuard, first, layout.dims, layout.strides, layout.item);
  expect(bytes == 0 || std::memcmp(dense.data() + kGuard, naive.data(), bytes) == 0, "pack");
  for (size_t i = 0; i < kGuard; ++i) {
    expect(dense[i] == kGuardByte && dense[kGuard + bytes + i] == kGuardByte, "pack wrote outside");
  }

  if (count > 0) {
    std::vector<char> pieces(bytes);
    for_each_piece(first, layout.dims, layout.strides, layout.item, 1 + reader.next(),
                   [&](const ArrayPiece& piece) {
                     expect(piece.offset + piece.bytes <= bytes, "a piece lies outside");
                     pack(pieces.data() + piece.offset, piece.data, piece.dimensions,
                          piece.byte_strides, layout.item);
                   });
    expect(pieces == naive, "pieces");
  }

  // Where elements overlap, what they read back is one of the values written: here the old ones.
  std::vector<char> before = storage;
  unpack(first, naive.data(), layout.dims, layout.strides, layout.item);
  expect(storage == before, "unpack of what was packed changed the storage");
  return 0;
}

#ifndef TORCH_PJRT_LIBFUZZER
int main(int argc, char** argv) {
  const long inputs = argc > 1 ? std::atol(argv[1]) : 20000;
  uint64_t state = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::vector<uint8_t> input;
  for (long i = 0; i < inputs; ++i) {
    input.resize(8 + i % 120);
    for (uint8_t& byte : input) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<uint8_t>(state >> 56);
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%ld inputs\n", inputs);
}
#endif
