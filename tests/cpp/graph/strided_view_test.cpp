#include "graph/strided_view.h"

#include <cstring>
#include <numeric>
#include <random>

#include "graph/executor_test_support.h"

namespace torch_pjrt::graph {
namespace {

using enum pjrt::ElementType;
using Ints = std::vector<int64_t>;

struct Window {
  Ints sizes, strides;
  int64_t offset = 0;
  StridedView view() const { return {sizes, strides, offset}; }
};

std::string describe(const Window& w, int64_t count) {
  std::string text = "storage of " + std::to_string(count) + ", sizes";
  for (int64_t size : w.sizes) text += ' ' + std::to_string(size);
  text += ", strides";
  for (int64_t stride : w.strides) text += ' ' + std::to_string(stride);
  return text + ", offset " + std::to_string(w.offset);
}

// The place in the storage of each element, in row-major order.
Ints places(const Window& w) {
  Ints all{w.offset};
  for (size_t d = 0; d < w.sizes.size(); ++d) {
    Ints next;
    for (int64_t place : all) {
      for (int64_t i = 0; i < w.sizes[d]; ++i) next.push_back(place + i * w.strides[d]);
    }
    all = std::move(next);
  }
  return all;
}

bool overlaps(const Window& w) {
  Ints all = places(w);
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

class Windows {
 public:
  explicit Windows(unsigned seed) : random_(seed) {}

  // A chain of views of a dense array, as user code makes them.
  Window views(int64_t& count) {
    Window w;
    const int64_t rank = below(5);
    for (int64_t d = 0; d < rank; ++d) w.sizes.push_back(1 + below(4));
    w.strides.assign(w.sizes.size(), 1);
    count = 1;
    for (size_t d = w.sizes.size(); d-- > 0;) {
      w.strides[d] = count;
      count *= w.sizes[d];
    }
    for (int64_t i = below(5); i > 0; --i) step(w);
    if (below(4) == 0) {  // the array is a part of a longer storage
      w.offset += below(4);
      count += 3 + below(5);
    }
    return w;
  }

  // Any sizes and strides that fit, as as_strided takes them.
  Window any(int64_t count) {
    Window w;
    int64_t room = count - 1;
    w.offset = below(std::min<int64_t>(count, 6));
    room -= w.offset;
    const int64_t rank = 1 + below(3);
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t stride = below(8);
      const int64_t most = stride == 0 ? 3 : std::min<int64_t>(room / stride, 4);
      const int64_t size = 1 + below(most + 1);
      if (stride) room -= (size - 1) * stride;
      w.sizes.push_back(size);
      w.strides.push_back(stride);
    }
    return w;
  }

 private:
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  void step(Window& w) {
    const size_t rank = w.sizes.size();
    const size_t d = rank ? static_cast<size_t>(below(static_cast<int64_t>(rank))) : 0;
    switch (below(6)) {
      case 0:  // transpose
        if (rank < 2) return;
        std::swap(w.sizes[d], w.sizes[0]);
        std::swap(w.strides[d], w.strides[0]);
        return;
      case 1: {  // slice with a step; may leave nothing
        if (!rank) return;
        const int64_t start = below(w.sizes[d] + 1), jump = 1 + below(3);
        w.offset += start == w.sizes[d] ? 0 : start * w.strides[d];
        w.sizes[d] = (w.sizes[d] - start + jump - 1) / jump;
        w.strides[d] *= jump;
        return;
      }
      case 2:  // select
        if (!rank || w.sizes[d] == 0) return;
        w.offset += below(w.sizes[d]) * w.strides[d];
        w.sizes.erase(w.sizes.begin() + static_cast<std::ptrdiff_t>(d));
        w.strides.erase(w.strides.begin() + static_cast<std::ptrdiff_t>(d));
        return;
      case 3:  // unsqueeze and expand
        w.sizes.insert(w.sizes.begin(), 1 + below(3));
        w.strides.insert(w.strides.begin(), 0);
        return;
      case 4: {  // diagonal
        if (rank < 2 || w.sizes[0] == 0 || w.sizes[1] == 0) return;
        w.sizes[1] = std::min(w.sizes[0], w.sizes[1]);
        w.strides[1] += w.strides[0];
        w.sizes.erase(w.sizes.begin());
        w.strides.erase(w.strides.begin());
        return;
      }
      case 5: {  // unfold
        if (!rank || w.sizes[d] < 2) return;
        const int64_t window = 1 + below(w.sizes[d]), jump = 1 + below(2);
        w.sizes.push_back(window);
        w.strides.push_back(w.strides[d]);
        w.sizes[d] = (w.sizes[d] - window) / jump + 1;
        w.strides[d] *= jump;
        return;
      }
    }
  }

  std::mt19937 random_;
};

class StridedViewTest : public transfer::OnEachPlugin {};
ON_EACH_PLUGIN(StridedViewTest);

// All reads and writes are one program on each plugin.
TEST_P(StridedViewTest, ReadsAndWritesAsANaiveLoopDoes) {
  TestDevice d(client());
  Windows windows(42);
  struct Case {
    std::string what;
    Value value;
    std::vector<int32_t> expected;
  };
  std::vector<Case> cases;
  int written = 0;
  for (int round = 0; round < 90; ++round) {
    int64_t count = 5 + round % 40;
    const Window w = round % 3 ? windows.views(count) : windows.any(count);
    std::vector<int32_t> storage(static_cast<size_t>(count));
    std::iota(storage.begin(), storage.end(), 100);
    const Value contents = d.upload(kS32, storage);
    const Ints at = places(w);
    std::vector<int32_t> read;
    for (int64_t place : at) read.push_back(storage.at(static_cast<size_t>(place)));
    cases.push_back({"read: " + describe(w, count), read_view(contents, w.view()), read});
    if (overlaps(w)) continue;
    ++written;
    std::vector<int32_t> update(at.size());
    std::iota(update.begin(), update.end(), -50);
    for (size_t i = 0; i < at.size(); ++i) storage[static_cast<size_t>(at[i])] = update[i];
    const Value value = d.upload(kS32, update, Dimensions(w.sizes.begin(), w.sizes.end()));
    cases.push_back(
        {"write: " + describe(w, count), write_view(contents, w.view(), value), storage});
  }
  EXPECT_GT(written, 40);
  std::vector<std::unique_ptr<Cell>> cells;
  for (const Case& c : cases) {
    cells.push_back(std::make_unique<Cell>(d.executor));
    cells.back()->set(c.value);
  }
  d.executor.execute();
  for (const Case& c : cases) EXPECT_EQ(d.read<int32_t>(c.value), c.expected) << c.what;
}

template <typename T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
void expect_bytes(TestDevice& d, const Value& value, const std::vector<uint8_t>& expected,
                  const std::string& what) {
  EXPECT_EQ(bytes_of(d.read<T>(value)), expected) << what;
}

TEST_P(StridedViewTest, SeesTheSameBytesAsOtherTypes) {
  TestDevice d(client());
  std::vector<uint8_t> bytes(48);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 5 + 1);
  // No NaN among them as f16, f32 or f64, whose payload a device need not keep.
  const ElementType types[] = {kU8, kS16, kF16, kS32, kF32, kS64, kC64, kC128};
  struct Case {
    std::string what;
    Value value;
    size_t size;
  };
  std::vector<Case> cases;
  std::vector<std::unique_ptr<Cell>> cells;
  const Value source = d.upload(kU8, bytes);
  for (ElementType from : types) {
    for (ElementType to : types) {
      const Value seen = reinterpret(reinterpret(source, from), to);
      EXPECT_EQ(seen.type().byte_count(), 48);
      // Read back as bytes, so that only the two conversions above are under test with any type.
      cases.push_back(
          {to_string(reinterpret(source, from).type()) + " as " + to_string(seen.type()),
           reinterpret(seen, kU8), 48});
      cells.push_back(std::make_unique<Cell>(d.executor));
      cells.back()->set(cases.back().value);
    }
  }
  d.executor.execute();
  for (const Case& c : cases) expect_bytes<uint8_t>(d, c.value, bytes, c.what);
  expect_bytes<float>(d, reinterpret(source, kF32), bytes, "f32");
  expect_bytes<int64_t>(d, reinterpret(source, kS64), bytes, "s64");
}

TEST_P(StridedViewTest, LeavesOutBytesThatMakeNoWholeElement) {
  TestDevice d(client());
  std::vector<uint8_t> bytes{1, 2, 3, 4, 5, 6, 7};
  const Value source = d.upload(kU8, bytes);
  EXPECT_EQ(d.read<int32_t>(reinterpret(source, kS32)), std::vector<int32_t>{0x04030201});
  EXPECT_EQ(d.read<uint8_t>(reinterpret(source, kPred)), std::vector<uint8_t>(7, 1));
}

TEST_P(StridedViewTest, ResizesKeepingTheFirstElements) {
  TestDevice d(client());
  const Value x = d.upload<int32_t>(kS32, {1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(d.read<int32_t>(resize(x, 3)), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(d.read<int32_t>(resize(x, 6)), (std::vector<int32_t>{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(d.read<int32_t>(resize(x, 0)), std::vector<int32_t>{});
}

TEST_P(StridedViewTest, OrdersDimensionsAsTheStorage) {
  TestDevice d(client());
  const Value x = d.upload<int32_t>(kS32, {1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(d.read<int32_t>(storage_order(x, Ints{1, 2})),
            (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(storage_order(x, Ints{3, 1}), x);
}

}  // namespace
}  // namespace torch_pjrt::graph
