#include "transfer/strided_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "transfer/array_pieces.h"

namespace torch_pjrt::transfer {
namespace {

using Random = std::mt19937_64;

int64_t between(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// A strided array inside storage with a margin that must not be touched.
struct Layout {
  std::vector<int64_t> dims;
  std::vector<int64_t> byte_strides;
  size_t item = 1;
  size_t offset = 0;  // of the first element in the storage
  size_t storage_bytes = 0;

  std::string text() const {
    std::string result = "item " + std::to_string(item) + " dims";
    for (auto d : dims) result += " " + std::to_string(d);
    result += " strides";
    for (auto s : byte_strides) result += " " + std::to_string(s);
    return result;
  }
};

void place(Layout& layout) {
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    if (layout.dims[i] == 0) continue;
    const int64_t reach = (layout.dims[i] - 1) * layout.byte_strides[i];
    (reach < 0 ? low : high) += reach;
  }
  layout.offset = static_cast<size_t>(-low) + 16;
  layout.storage_bytes = layout.offset + static_cast<size_t>(high) + layout.item + 16;
}

// Dense in a random order of the dimensions, then with gaps, flips, broadcasts or any strides.
Layout random_layout(Random& random, bool distinct) {
  Layout layout;
  layout.item = size_t{1} << between(random, 0, 4);
  const int64_t rank = between(random, 0, 6);
  int64_t budget = between(random, 0, 9) == 0 ? 6000 : 600;
  std::vector<size_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = between(random, 1, 1 + std::min<int64_t>(budget - 1, 90));
    if (between(random, 0, 3) == 0) size = between(random, 0, 3);
    layout.dims.push_back(size);
    budget = std::max<int64_t>(1, budget / std::max<int64_t>(1, size));
    order.insert(order.begin() + between(random, 0, i), static_cast<size_t>(i));
  }
  layout.byte_strides.assign(rank, 0);
  int64_t stride = static_cast<int64_t>(layout.item);
  for (size_t d : order) {
    const int64_t gap = between(random, 0, 3) == 0 ? between(random, 1, 3) : 1;
    stride *= gap;
    layout.byte_strides[d] = stride;
    stride *= std::max<int64_t>(1, layout.dims[d]);
    const int64_t kind = between(random, 0, 9);
    if (kind == 0) layout.byte_strides[d] = -layout.byte_strides[d];
    if (kind == 1 && !distinct) layout.byte_strides[d] = 0;
    if (kind == 2 && !distinct) layout.byte_strides[d] = between(random, -40, 40);
  }
  place(layout);
  return layout;
}

std::vector<char> random_bytes(Random& random, size_t count) {
  std::vector<char> bytes(count);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Calls visit(byte offset in the strided array, index in the dense one) for each element.
template <typename Visit>
void for_each(const Layout& layout, Visit visit) {
  const int64_t count = element_count(layout.dims);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, offset = static_cast<int64_t>(layout.offset);
    for (size_t d = layout.dims.size(); d-- > 0; rest /= layout.dims[d]) {
      offset += rest % layout.dims[d] * layout.byte_strides[d];
    }
    visit(static_cast<size_t>(offset), static_cast<size_t>(i));
  }
}

void expect_packs(Random& random, const Layout& layout) {
  const auto storage = random_bytes(random, layout.storage_bytes);
  const size_t bytes = element_count(layout.dims) * layout.item;
  std::vector<char> expected(bytes + 16, 'x'), got = expected;
  for_each(layout, [&](size_t offset, size_t i) {
    std::memcpy(&expected[8 + i * layout.item], &storage[offset], layout.item);
  });
  pack(&got[8], &storage[layout.offset], layout.dims, layout.byte_strides, layout.item);
  ASSERT_TRUE(got == expected) << layout.text();
}

void expect_unpacks(Random& random, const Layout& layout) {
  const auto dense = random_bytes(random, element_count(layout.dims) * layout.item + 1);
  std::vector<char> expected = random_bytes(random, layout.storage_bytes), got = expected;
  for_each(layout, [&](size_t offset, size_t i) {
    std::memcpy(&expected[offset], &dense[i * layout.item], layout.item);
  });
  unpack(&got[layout.offset], dense.data(), layout.dims, layout.byte_strides, layout.item);
  ASSERT_TRUE(got == expected) << layout.text();
}

TEST(StridedCopy, PacksRandomLayoutsLikeANaiveLoop) {
  Random random(1);
  for (int i = 0; i < 10000 && !HasFatalFailure(); ++i) {
    expect_packs(random, random_layout(random, false));
  }
}

TEST(StridedCopy, UnpacksRandomLayoutsLikeANaiveLoop) {
  Random random(2);
  for (int i = 0; i < 10000 && !HasFatalFailure(); ++i) {
    expect_unpacks(random, random_layout(random, true));
  }
}

TEST(StridedCopy, PiecesOfRandomLayoutsCoverThemInOrder) {
  Random random(7);
  for (int i = 0; i < 2000 && !HasFatalFailure(); ++i) {
    const Layout layout = random_layout(random, false);
    const size_t bytes = static_cast<size_t>(element_count(layout.dims)) * layout.item;
    if (bytes == 0) continue;
    const auto storage = random_bytes(random, layout.storage_bytes);
    const char* const data = &storage[layout.offset];
    std::vector<char> expected(bytes), got(bytes);
    pack(expected.data(), data, layout.dims, layout.byte_strides, layout.item);
    const auto most = static_cast<size_t>(between(random, 1, 200));
    size_t next = 0;
    for_each_piece(data, layout.dims, layout.byte_strides, layout.item, most,
                   [&](const ArrayPiece& piece) {
                     EXPECT_EQ(piece.offset, next);
                     EXPECT_LE(piece.bytes, std::max(most, layout.item));
                     next += piece.bytes;
                     pack(got.data() + piece.offset, piece.data, piece.dimensions,
                          piece.byte_strides, layout.item);
                   });
    EXPECT_EQ(next, bytes);
    ASSERT_TRUE(got == expected) << layout.text();
  }
}

TEST(StridedCopy, TransposesOfEverySizeAroundTheTiles) {
  Random random(3);
  for (int64_t item : {1, 2, 4, 8, 16}) {
    for (int64_t rows : {1, 2, 3, 15, 16, 17, 63, 64, 65, 130}) {
      for (int64_t columns : {1, 3, 16, 31, 64, 67, 129}) {
        Layout layout;
        layout.item = static_cast<size_t>(item);
        layout.dims = {columns, rows};
        layout.byte_strides = {item, columns * item};
        place(layout);
        expect_packs(random, layout);
        expect_unpacks(random, layout);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(StridedCopy, SharesLargeArraysAmongThreads) {
  Random random(4);
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> layouts = {
      {{1300, 1100}, {4, 1300 * 4}},               // transposed
      {{1300, 1100}, {1101 * 4, 4}},               // rows with gaps
      {{1300, 1100}, {-1100 * 8, 8}},              // every second, upside down
      {{3, 700, 700}, {4, 700 * 12, 12}},          // channels last
      {{1, 2, 1, 800000}, {0, 800000 * 4, 0, 4}},  // dense
      {{2, 65, 129, 67}, {4, 67 * 129 * 8, 67 * 8, 8}},
  };
  for (const auto& [dims, strides] : layouts) {
    Layout layout;
    layout.item = 4;
    layout.dims = dims;
    layout.byte_strides = strides;
    place(layout);
    expect_packs(random, layout);
    expect_unpacks(random, layout);
  }
}

TEST(StridedCopy, BroadcastsALargeArrayFromOneRow) {
  Random random(5);
  Layout layout;
  layout.item = 4;
  layout.dims = {1000, 700};
  for (std::vector<int64_t> strides : {std::vector<int64_t>{0, 4}, {4, 0}, {0, 0}}) {
    layout.byte_strides = strides;
    place(layout);
    expect_packs(random, layout);
  }
}

TEST(StridedCopy, ParallelMemcpyCopiesEveryByte) {
  Random random(6);
  for (size_t bytes : {size_t{0}, size_t{1}, kParallelBytes, kParallelBytes + 1, size_t{9999999}}) {
    const auto source = random_bytes(random, bytes + 1);
    std::vector<char> target(bytes + 2, 'x');
    parallel_memcpy(target.data() + 1, source.data(), bytes);
    EXPECT_EQ(target.front(), 'x');
    EXPECT_EQ(target.back(), 'x');
    EXPECT_EQ(std::memcmp(target.data() + 1, source.data(), bytes), 0);
  }
}

TEST(StridedCopy, TellsWhatItDoesNotSupport) {
  char byte = 0;
  const int64_t dims[] = {1}, strides[] = {3};
  EXPECT_THROW(pack(&byte, &byte, dims, strides, 3), std::invalid_argument);
  EXPECT_THROW(pack(&byte, &byte, dims, strides, 32), std::invalid_argument);
  EXPECT_THROW(unpack(&byte, &byte, dims, {}, 1), std::invalid_argument);
}

TEST(StridedCopy, KnowsRowMajorStrides) {
  const int64_t dims[] = {2, 1, 3};
  EXPECT_TRUE(is_row_major(dims, std::vector<int64_t>{12, 99, 4}, 4));
  EXPECT_TRUE(is_row_major(dims, {}, 4));
  EXPECT_FALSE(is_row_major(dims, std::vector<int64_t>{4, 4, 8}, 4));
  EXPECT_FALSE(is_row_major(dims, std::vector<int64_t>{12, 4, 0}, 4));
  const int64_t empty[] = {2, 0, 3};
  EXPECT_TRUE(is_row_major(empty, std::vector<int64_t>{1, 7, 5}, 4));
}

}  // namespace
}  // namespace torch_pjrt::transfer
