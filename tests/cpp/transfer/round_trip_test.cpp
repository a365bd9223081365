#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "pjrt/error.h"
#include "transfer/device_to_device.h"
#include "transfer/device_to_host.h"
#include "transfer/host_to_device.h"
#include "transfer/in_flight.h"
#include "transfer/strided_copy.h"
#include "transfer_test_support.h"

namespace torch_pjrt::transfer {
namespace {

using pjrt::ElementType;
using Ints = std::vector<int64_t>;
using namespace std::chrono_literals;

class RoundTrip : public OnEachPlugin {
 protected:
  // What is on the device, through the plugin's own copy.
  std::vector<char> on_device(const pjrt::Buffer& buffer) {
    const size_t item = static_cast<size_t>(pjrt::bit_width(buffer.element_type()) + 7) / 8;
    std::vector<char> bytes(item * element_count(buffer.dimensions()));
    buffer.ready_event().await();
    buffer.copy_to_host(bytes.data(), bytes.size()).await();
    return bytes;
  }

  std::vector<char> back(const pjrt::Buffer& buffer, size_t bytes) {
    std::vector<char> result(bytes + 1, 'x');
    const Ints dims(buffer.dimensions().begin(), buffer.dimensions().end());
    device_to_host(client(), buffer, {result.data(), dims, {}});
    EXPECT_EQ(result.back(), 'x');
    result.pop_back();
    return result;
  }

  HostSource source(const void* data, ElementType type, const Ints& dims, const Ints& strides) {
    return {data, type, dims, strides};
  }
};
ON_EACH_PLUGIN(RoundTrip);

std::vector<char> numbered(size_t count) {
  std::vector<char> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 7 + (i >> 8));
  return bytes;
}

int64_t counted(std::string_view name) { return base::counter(name).value(); }

TEST_P(RoundTrip, KeepsEveryBitOfEveryType) {
  for (ElementType type : client().probe_element_types()) {
    const int bits = pjrt::bit_width(type);
    if (bits < 8) continue;
    for (int64_t count : {1, 7, 40000}) {
      std::vector<char> bytes = numbered(count * bits / 8);
      if (type == ElementType::kPred) {
        for (char& byte : bytes) byte &= 1;
      }
      const pjrt::Buffer buffer =
          host_to_device(client(), device(), source(bytes.data(), type, {count}, {}));
      EXPECT_EQ(buffer.element_type(), type);
      EXPECT_EQ(on_device(buffer), bytes) << pjrt::name(type) << " " << count;
      EXPECT_EQ(back(buffer, bytes.size()), bytes) << pjrt::name(type) << " " << count;
    }
  }
}

TEST_P(RoundTrip, TakesArraysWithoutDimensionsOrElements) {
  const float value = 2.5f;
  pjrt::Buffer scalar = host_to_device(client(), device(), {&value, ElementType::kF32, {}, {}});
  EXPECT_EQ(scalar.dimensions().size(), 0u);
  float got = 0;
  device_to_host(client(), scalar, {&got, {}, {}});
  EXPECT_EQ(got, value);

  for (const Ints& dims : {Ints{0}, Ints{3, 0, 2}}) {
    pjrt::Buffer empty =
        host_to_device(client(), device(), source(nullptr, ElementType::kF32, dims, {}));
    EXPECT_TRUE(std::ranges::equal(empty.dimensions(), dims));
    device_to_host(client(), empty, {nullptr, dims, {}});
    const Ints strides(dims.size(), 4);
    device_to_host(client(), empty, {nullptr, dims, strides});
    pjrt::Buffer moved = device_to_device(client(), empty, client(), device(1));
    EXPECT_TRUE(std::ranges::equal(moved.dimensions(), dims));
    HostBlock none = HostMemoryPool::shared().allocate(0);
    block_to_device(client(), device(), {ElementType::kF32, dims}, std::move(none));
  }
}

TEST_P(RoundTrip, FollowsStridesBothWays) {
  struct Case {
    Ints dims, strides;
    size_t offset;
  };
  const std::vector<Case> cases = {
      {{5, 7}, {4, 20}, 0},               // transposed
      {{5, 7}, {-28, 4}, 112},            // upside down
      {{300, 500}, {4004, 8}, 8},         // every second, with gaps
      {{700, 900}, {4, 2800}, 0},         // transposed, on several threads
      {{3, 400, 600}, {4, 7200, 12}, 0},  // channels last
      {{2, 3, 50, 70}, {4, 28000, 560, 8}, 0},
  };
  for (const Case& c : cases) {
    size_t span = c.offset + 4;
    for (size_t i = 0; i < c.dims.size(); ++i) {
      if (c.strides[i] > 0) span += (c.dims[i] - 1) * c.strides[i];
    }
    const std::vector<char> storage = numbered(span);
    std::vector<char> dense(element_count(c.dims) * 4);
    pack(dense.data(), storage.data() + c.offset, c.dims, c.strides, 4);
    const pjrt::Buffer buffer =
        host_to_device(client(), device(),
                       source(storage.data() + c.offset, ElementType::kS32, c.dims, c.strides));
    EXPECT_EQ(on_device(buffer), dense);

    std::vector<char> target(span, 'x'), expected(span, 'x');
    unpack(expected.data() + c.offset, dense.data(), c.dims, c.strides, 4);
    device_to_host(client(), buffer, {target.data() + c.offset, c.dims, c.strides});
    EXPECT_EQ(target, expected);
  }
}

TEST_P(RoundTrip, BroadcastsZeroStrides) {
  const std::vector<int32_t> row = {1, 2, 3};
  const pjrt::Buffer buffer =
      host_to_device(client(), device(), source(row.data(), ElementType::kS32, {50000, 3}, {0, 4}));
  std::vector<int32_t> got(150000);
  const Ints dims = {50000, 3};
  device_to_host(client(), buffer, {got.data(), dims, {}});
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], row[i % 3]);
}

TEST_P(RoundTrip, LargeSourcesMayChangeAfterTheCall) {
  std::vector<char> bytes = numbered(5 << 20);
  const std::vector<char> before = bytes;
  const int64_t count = bytes.size();
  const int64_t flat = counted("transfer.host_to_device.flat.bytes");
  const pjrt::Buffer buffer =
      host_to_device(client(), device(), source(bytes.data(), ElementType::kU8, {count}, {}));
  std::fill(bytes.begin(), bytes.end(), 0);
  EXPECT_EQ(back(buffer, bytes.size()), before);
  EXPECT_EQ(counted("transfer.host_to_device.flat.bytes") - flat, count);
}

TEST_P(RoundTrip, TargetMayHaveAnotherShapeWithAsManyElements) {
  std::vector<int32_t> values(12);
  std::iota(values.begin(), values.end(), 0);
  const pjrt::Buffer buffer =
      host_to_device(client(), device(), source(values.data(), ElementType::kS32, {12}, {}));
  std::vector<int32_t> got(12);
  const Ints dims = {3, 4}, strides = {4, 12}, wrong = {5};
  device_to_host(client(), buffer, {got.data(), dims, strides});
  for (int i = 0; i < 12; ++i) EXPECT_EQ(got[i % 4 * 3 + i / 4], i);
  EXPECT_THROW(device_to_host(client(), buffer, {got.data(), wrong, {}}), pjrt::Error);
}

// Counts how often holders of one source were destroyed.
struct Watched {
  explicit Watched(std::atomic<int>& count) : count(&count) {}
  Watched(Watched&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  ~Watched() {
    if (count) ++*count;
  }
  std::atomic<int>* count;
};

TEST_P(RoundTrip, AdoptsAlignedMemoryAndLetsGoOnce) {
  HostBlock memory = HostMemoryPool::shared().allocate(1 << 20);
  std::memset(memory.data(), 3, memory.size());
  std::atomic<int> released{0};
  const Ints dims = {1 << 20};
  ASSERT_TRUE(uses_host_memory(client()));
  ASSERT_TRUE(can_adopt(client(), {memory.data(), ElementType::kU8, dims, {}}));
  {
    pjrt::Buffer buffer = adopt(client(), device(), {memory.data(), ElementType::kU8, dims, {}},
                                hold(Watched(released)));
    buffer.ready_event().await();
    EXPECT_EQ(buffer.device_pointer(), memory.data());
    static_cast<char*>(memory.data())[5] = 9;  // shared: the device sees it
    EXPECT_EQ(back(buffer, 1 << 20)[5], 9);
    Reclaimer::instance().drain(10s);
    EXPECT_EQ(released, 0);
  }
  for (int i = 0; i < 1000 && released == 0; ++i) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(released, 1);

  const HostSource misaligned = {static_cast<char*>(memory.data()) + 32, ElementType::kU8, {}, {}};
  EXPECT_FALSE(can_adopt(client(), misaligned));
  released = 0;
  EXPECT_THROW(adopt(client(), device(), misaligned, hold(Watched(released))), pjrt::Error);
  EXPECT_EQ(released, 1);
}

TEST_P(RoundTrip, GivesABlockToTheDeviceAndGetsItBack) {
  Reclaimer::instance().drain(10s);
  const size_t before = HostMemoryPool::shared().stats().bytes_in_use;
  const Ints dims = {1 << 18};
  {
    HostBlock block = HostMemoryPool::shared().allocate(1 << 20);
    std::memset(block.data(), 7, block.size());
    const void* const memory = block.data();
    pjrt::Buffer buffer =
        block_to_device(client(), device(), {ElementType::kF32, dims}, std::move(block));
    buffer.ready_event().await();
    EXPECT_EQ(buffer.device_pointer(), memory);
    EXPECT_EQ(back(buffer, 1 << 20), std::vector<char>(1 << 20, 7));
    EXPECT_GT(HostMemoryPool::shared().stats().bytes_in_use, before);
  }
  for (int i = 0; i < 1000; ++i) {
    Reclaimer::instance().drain(10s);
    if (HostMemoryPool::shared().stats().bytes_in_use == before) break;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(HostMemoryPool::shared().stats().bytes_in_use, before);
  EXPECT_THROW(block_to_device(client(), device(), {ElementType::kF32, dims},
                               HostMemoryPool::shared().allocate(1000)),
               pjrt::Error);
}

// As on a device whose memory the host cannot address.
class WithoutSharing {
 public:
  WithoutSharing() { set_host_memory_sharing(false); }
  ~WithoutSharing() { set_host_memory_sharing(true); }
};

TEST_P(RoundTrip, HoldsASourceUntilTheDeviceHasReadIt) {
  WithoutSharing without;
  std::vector<char> bytes = numbered(4 << 20);
  const Ints dims = {4 << 20}, none = {};
  std::atomic<int> made{0}, released{0};
  const HoldSource hold_source = [&] {
    ++made;
    return hold(Watched(released));
  };
  const HostSource whole{bytes.data(), ElementType::kU8, dims, none};
  {
    const pjrt::Buffer buffer = host_to_device(client(), device(), whole, hold_source);
    EXPECT_EQ(made, 1);
    EXPECT_EQ(on_device(buffer), bytes);
    EXPECT_EQ(back(buffer, bytes.size()), bytes);
  }
  for (int i = 0; i < 1000 && released == 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(released, 1);

  // Without a holder the source is not read after the call.
  const std::vector<char> before = bytes;
  const pjrt::Buffer copied = host_to_device(client(), device(), whole);
  std::fill(bytes.begin(), bytes.end(), 0);
  EXPECT_EQ(on_device(copied), before);

  const Ints small = {1000};
  host_to_device(client(), device(), {bytes.data(), ElementType::kU8, small, none}, hold_source);
  EXPECT_EQ(made, 1);
}

TEST_P(RoundTrip, SendsLargeArraysInPieces) {
  WithoutSharing without;
  HostMemoryPool::shared().trim();
  std::vector<char> storage = numbered(20 * 1024 * 1025);
  const Ints dims = {20, 1024, 1024}, strides = {1024 * 1025, 1025, 1};  // rows with gaps
  std::vector<char> dense(20 << 20);
  pack(dense.data(), storage.data(), dims, strides, 1);
  const int64_t before = counted("transfer.host_to_device.chunked.bytes");
  const pjrt::Buffer buffer =
      host_to_device(client(), device(1), {storage.data(), ElementType::kU8, dims, strides});
  const HostSource whole{dense.data(), ElementType::kU8, dims, {}};
  const pjrt::Buffer other = host_to_device(client(), device(0), whole);
  std::fill(storage.begin(), storage.end(), 0);
  EXPECT_EQ(counted("transfer.host_to_device.chunked.bytes") - before, 2 * (20 << 20));
  EXPECT_EQ(buffer.device(), device(1));
  EXPECT_EQ(on_device(buffer), dense);
  EXPECT_EQ(on_device(other), dense);
  EXPECT_LE(HostMemoryPool::shared().stats().bytes_cached, size_t{33} << 20);
  EXPECT_EQ(base::gauge("transfer.in_flight_bytes").value(), 0);
}

TEST_P(RoundTrip, ManyTransfersWaitAtABoundAndDoNotFail) {
  WithoutSharing without;
  const size_t limit = InFlight::limit();
  InFlight::set_limit(1 << 20);
  const std::vector<char> bytes = numbered(600 << 10);
  const Ints dims = {600 << 10};
  std::vector<HostToDeviceCopy> copies(40,
                                       {device(), {bytes.data(), ElementType::kU8, dims, {}}, {}});
  for (const pjrt::Buffer& buffer : host_to_device(client(), copies)) {
    EXPECT_EQ(on_device(buffer), bytes);
  }
  InFlight::set_limit(limit);
}

TEST_P(RoundTrip, FollowsStridesWithoutSharing) {
  WithoutSharing without;
  const std::vector<char> storage = numbered(4 * 700 * 900);
  const Ints dims = {700, 900}, strides = {4, 2800};
  std::vector<char> dense(storage.size()), target(storage.size());
  pack(dense.data(), storage.data(), dims, strides, 4);
  const pjrt::Buffer buffer =
      host_to_device(client(), device(), {storage.data(), ElementType::kS32, dims, strides});
  EXPECT_EQ(on_device(buffer), dense);
  device_to_host(client(), buffer, {target.data(), dims, strides});
  EXPECT_EQ(target, storage);
  EXPECT_FALSE(can_adopt(client(), {storage.data(), ElementType::kS32, dims, {}}));
}

TEST_P(RoundTrip, CopiesABatchToTheDevice) {
  std::vector<std::vector<int32_t>> values;
  std::vector<Ints> dims;
  for (int i = 0; i < 100; ++i) {
    const int64_t count = i == 50 ? 1'000'000 : i * 37;
    values.emplace_back(count, i);
    dims.push_back({count});
  }
  std::vector<HostToDeviceCopy> copies;
  for (int i = 0; i < 100; ++i) {
    copies.push_back({device(i % 2), {values[i].data(), ElementType::kS32, dims[i], {}}, {}});
  }
  const std::vector<pjrt::Buffer> buffers = host_to_device(client(), copies);
  ASSERT_EQ(buffers.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    const std::vector<char> got = back(buffers[i], values[i].size() * 4);
    const auto* const sent = reinterpret_cast<const char*>(values[i].data());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), sent)) << i;
    EXPECT_EQ(buffers[i].device(), device(i % 2));
  }
  copies[7].source.type = ElementType::kInvalid;
  EXPECT_THROW(host_to_device(client(), copies), pjrt::Error);
}

TEST_P(RoundTrip, SmallArraysOfABatchShareBlocksThatComeBack) {
  Reclaimer::instance().drain(10s);
  const size_t before = HostMemoryPool::shared().stats().bytes_in_use;
  constexpr int64_t kCount = 200;
  const Ints dims = {70, 100}, strides = {400, 4}, transposed = {4, 280};
  const std::vector<char> bytes = numbered(70 * 100 * 4);
  std::vector<HostToDeviceCopy> copies(
      kCount, {device(), {bytes.data(), ElementType::kF32, dims, strides}, {}});
  for (size_t i = 0; i < copies.size(); i += 2) copies[i].source.byte_strides = transposed;
  std::vector<char> packed(bytes.size());
  pack(packed.data(), bytes.data(), dims, transposed, 4);
  const int64_t batched = counted("transfer.host_to_device.batched.calls");
  {
    std::vector<pjrt::Buffer> buffers = host_to_device(client(), copies);
    EXPECT_EQ(counted("transfer.host_to_device.batched.calls") - batched, kCount);
    // Far fewer blocks than arrays.
    EXPECT_LT(HostMemoryPool::shared().stats().bytes_in_use - before, size_t{8} << 20);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers[i].device_pointer()) % 64, 0u);
      EXPECT_EQ(back(buffers[i], bytes.size()), i % 2 ? bytes : packed) << i;
    }
    // One that stays keeps its block; its contents too.
    const pjrt::Buffer last = std::move(buffers.back());
    buffers.clear();
    host_to_device(client(), copies);
    EXPECT_EQ(back(last, bytes.size()), bytes);
  }
  for (int i = 0; i < 1000; ++i) {
    Reclaimer::instance().drain(10s);
    if (HostMemoryPool::shared().stats().bytes_in_use == before) break;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(HostMemoryPool::shared().stats().bytes_in_use, before);
}

TEST_P(RoundTrip, CopiesABatchToTheHost) {
  std::vector<std::vector<int32_t>> values, got;
  std::vector<Ints> dims;
  std::vector<pjrt::Buffer> buffers;
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const int64_t count = i == 50 ? 1'000'000 : static_cast<int64_t>(random() % 3000);
    values.emplace_back(count, i);
    got.emplace_back(count, -1);
    dims.push_back({count});
    buffers.push_back(host_to_device(client(), device(i % 2),
                                     source(values[i].data(), ElementType::kS32, dims[i], {})));
  }
  std::vector<DeviceToHostCopy> copies;
  for (int i = 0; i < 100; ++i) copies.push_back({&buffers[i], {got[i].data(), dims[i], {}}});
  device_to_host(client(), copies);
  EXPECT_EQ(got, values);

  // One that fails does not keep the others from being completed.
  for (auto& target : got) std::fill(target.begin(), target.end(), -1);
  buffers[3].delete_now();
  EXPECT_THROW(device_to_host(client(), copies), pjrt::Error);
  got[3] = values[3];
  EXPECT_EQ(got, values);
}

TEST_P(RoundTrip, ThrowsForADeletedBuffer) {
  const float value = 1;
  pjrt::Buffer buffer = host_to_device(client(), device(), {&value, ElementType::kF32, {}, {}});
  buffer.delete_now();
  float got = 0;
  EXPECT_THROW(device_to_host(client(), buffer, {&got, {}, {}}), pjrt::Error);
}

TEST_P(RoundTrip, CopiesBetweenDevices) {
  const std::vector<char> bytes = numbered(3 << 20);
  const int64_t count = bytes.size();
  const int64_t bounced = counted("transfer.device_to_device.bounced.calls");
  const pjrt::Buffer buffer =
      host_to_device(client(), device(0), source(bytes.data(), ElementType::kU8, {count}, {}));
  pjrt::Buffer other = device_to_device(client(), buffer, client(), device(1));
  EXPECT_EQ(other.device(), device(1));
  EXPECT_EQ(back(other, bytes.size()), bytes);
  EXPECT_EQ(counted("transfer.device_to_device.bounced.calls"), bounced);

  pjrt::Buffer same = device_to_device(client(), buffer, client(), device(0));
  EXPECT_NE(same.device_pointer(), buffer.device_pointer());
  EXPECT_EQ(back(same, bytes.size()), bytes);
  EXPECT_EQ(counted("transfer.device_to_device.bounced.calls"), bounced + 1);
}

TEST_P(RoundTrip, ManyThreadsMoveAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 40; ++i) {
        const int64_t count = 1 + random() % (i % 10 == 0 ? 2000000 : 100000);
        std::vector<char> bytes(count, static_cast<char>(random()));
        const Ints dims = {count};
        const pjrt::Buffer buffer =
            host_to_device(client(), device(t % 2), {bytes.data(), ElementType::kU8, dims, {}});
        std::vector<char> got(count);
        device_to_host(client(), buffer, {got.data(), dims, {}});
        if (got != bytes) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RoundTripPlugins, AreNamedByTheEnvironment) {
  EXPECT_FALSE(plugin_paths().empty()) << "TORCH_PJRT_TEST_PLUGINS names no plugin";
}

}  // namespace
}  // namespace torch_pjrt::transfer
