#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "arrays.h"
#include "base/metrics.h"
#include "on_each_plugin.h"

namespace torch_pjrt::pjrt {
namespace {

class TransferRoundTrip : public OnEachPlugin {};

std::vector<char> pattern(size_t bytes) {
  std::mt19937 random(7);
  std::vector<char> data(bytes);
  for (char& c : data) c = static_cast<char>(random() & 1u);  // 0 and 1 suit every type
  return data;
}

TEST_P(TransferRoundTrip, KeepsTheBytesOfEveryTypeAndSemantics) {
  const int64_t dimensions[] = {3, 4, 5};
  for (const ElementType type : client().probe_element_types()) {
    for (const auto semantics : {HostBufferSemantics::kImmutableOnlyDuringCall,
                                 HostBufferSemantics::kImmutableUntilTransferCompletes,
                                 HostBufferSemantics::kImmutableZeroCopy}) {
      const size_t bytes = 60 * static_cast<size_t>(std::max(8, bit_width(type))) / 8;
      const std::vector<char> sent = pattern(bytes);
      HostArray source;
      source.data = sent.data();
      source.type = type;
      source.dimensions = dimensions;
      source.semantics = semantics;
      source.device = device();
      const HostTransfer transfer = client().buffer_from_host(source);
      EXPECT_EQ(transfer.buffer.element_type(), type);
      ASSERT_EQ(transfer.buffer.dimensions().size(), 3u);
      EXPECT_EQ(transfer.buffer.dimensions()[2], 5);
      EXPECT_EQ(transfer.buffer.device(), device());
      transfer.buffer.ready_event().await();
      std::vector<char> received(bytes, 9);
      transfer.buffer.copy_to_host(received.data(), bytes).await();
      EXPECT_EQ(sent, received) << name(type);
    }
  }
}

TEST_P(TransferRoundTrip, TakesScalarsAndEmptyArrays) {
  const float one = 1.5f;
  HostArray source;
  source.data = &one;
  source.type = ElementType::kF32;
  source.device = device();
  const HostTransfer scalar = client().buffer_from_host(source);
  float received = 0;
  scalar.buffer.copy_to_host(&received, sizeof received).await();
  EXPECT_EQ(received, one);

  const int64_t none[] = {0, 3};
  source.dimensions = none;
  const HostTransfer empty = client().buffer_from_host(source);
  empty.buffer.copy_to_host(&received, 0).await();
  EXPECT_EQ(empty.buffer.dimensions()[0], 0);
}

TEST_P(TransferRoundTrip, TakesStridedSources) {
  const std::vector<int32_t> sent = {1, 2, 3, 4, 5, 6};  // 2 rows of 3, read as its transpose
  const int64_t dimensions[] = {3, 2};
  const int64_t strides[] = {4, 12};
  HostArray source;
  source.data = sent.data();
  source.type = ElementType::kS32;
  source.dimensions = dimensions;
  source.byte_strides = strides;
  source.device = device();
  const HostTransfer transfer = client().buffer_from_host(source);
  std::vector<int32_t> received(6);
  transfer.buffer.copy_to_host(received.data(), 24).await();
  EXPECT_EQ(received, (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
}

TEST_P(TransferRoundTrip, GivesAnErrorForADestinationThatIsTooSmall) {
  const Buffer buffer = put(client(), device(), {1, 2, 3, 4});
  float received[4];
  EXPECT_THROW(buffer.copy_to_host(received, 8).await(), Error);
}

TEST_P(TransferRoundTrip, ReadsAPieceOfABuffer) {
  const Buffer buffer = put(client(), device(), {1, 2, 3, 4});
  float received[2] = {0, 0};
  try {
    buffer.copy_raw_to_host(received, 4, 8).await();
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(received[0], 2.f);
  EXPECT_EQ(received[1], 3.f);
}

TEST_P(TransferRoundTrip, CopiesBetweenDevices) {
  const Client& two = client(2);
  const Device first = two.addressable_devices()[0];
  const Device second = two.addressable_devices()[1];
  const Buffer here = put(two, first, {1, 2, 3});
  const Buffer there = here.copy_to_device(second);
  EXPECT_EQ(there.device(), second);
  EXPECT_EQ(get(there), (std::vector<float>{1, 2, 3}));
  const Buffer by_memory = here.copy_to_memory(second.default_memory());
  EXPECT_EQ(by_memory.memory(), second.default_memory());
  EXPECT_EQ(get(by_memory), (std::vector<float>{1, 2, 3}));
}

TEST_P(TransferRoundTrip, FillsABufferPieceByPiece) {
  const int64_t size = 4;
  const ArraySpec spec{ElementType::kF32, {&size, 1}};
  AsyncTransfer transfer;
  try {
    transfer = client().create_async_transfer({&spec, 1}, device().default_memory());
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
    GTEST_SKIP() << error.what();
  }
  ASSERT_EQ(transfer.buffer_count(), 1u);
  EXPECT_EQ(transfer.buffer_bytes(0), 16u);
  const Buffer buffer = transfer.retrieve(0);
  EXPECT_FALSE(buffer.ready_event().is_ready());
  const float sent[] = {1, 2, 3, 4};
  transfer.transfer(0, sent, 0, 8, false).await();
  transfer.transfer(0, sent + 2, 8, 8, true).await();
  EXPECT_EQ(get(buffer), (std::vector<float>{1, 2, 3, 4}));
}

TEST_P(TransferRoundTrip, AllocatesWithoutContents) {
  const int64_t size = 4;
  try {
    const Buffer buffer = client().create_uninitialized({ElementType::kF32, {&size, 1}}, device());
    EXPECT_EQ(buffer.on_device_bytes(), 16u);
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
    GTEST_SKIP() << error.what();
  }
}

TEST_P(TransferRoundTrip, RegistersHostMemoryOrSaysItCannot) {
  alignas(64) char memory[4096];
  try {
    client().dma_map(memory, sizeof memory);
    client().dma_unmap(memory);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
  }
}

RUN_ON_EACH_PLUGIN(TransferRoundTrip);

}  // namespace
}  // namespace torch_pjrt::pjrt
