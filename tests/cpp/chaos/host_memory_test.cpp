// Host memory that must not be touched while a transfer uses it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "chaos/chaos_test_support.h"
#include "pjrt/arrays.h"

namespace torch_pjrt {
namespace {

using pjrt::HostBufferSemantics;

class ChaosHostMemory : public WithChaos {
 protected:
  void SetUp() override {
    WithChaos::SetUp();
    chaos().configure("host_memory=checked;delay_ms=20");
  }
  pjrt::HostTransfer give(const std::vector<int32_t>& values, HostBufferSemantics semantics,
                          std::span<const int64_t> byte_strides = {}) {
    static const std::array<int64_t, 2> dimensions{2, 3};
    pjrt::HostArray array;
    array.data = values.data();
    array.type = pjrt::ElementType::kS32;
    array.dimensions = dimensions;
    array.byte_strides = byte_strides;
    array.semantics = semantics;
    array.device = device();
    return client().buffer_from_host(array);
  }
};
RUN_ON_EACH_PLUGIN(ChaosHostMemory);

TEST_P(ChaosHostMemory, ASourceThatStaysIsFine) {
  const std::vector<int32_t> values{1, 2, 3, 4, 5, 6};
  const auto given = give(values, HostBufferSemantics::kImmutableUntilTransferCompletes);
  given.done_with_host_buffer.await();
  EXPECT_EQ(chaos().count("sources_checked"), 1);
  EXPECT_EQ(chaos().count("sources_changed"), 0);
}

TEST_P(ChaosHostMemory, ASourceThatChangesTooEarlyIsFound) {
  for (const auto semantics : {HostBufferSemantics::kImmutableUntilTransferCompletes,
                               HostBufferSemantics::kImmutableZeroCopy}) {
    std::vector<int32_t> values{1, 2, 3, 4, 5, 6};
    auto given = give(values, semantics);
    values[4] = 0;
    given.buffer.ready_event().await();
    given.buffer = {};
    EXPECT_EQ(code_of([&] { given.done_with_host_buffer.await(); }),
              pjrt::ErrorCode::kFailedPrecondition);
  }
  EXPECT_EQ(chaos().count("sources_changed"), 2);
}

TEST_P(ChaosHostMemory, OnlyTheElementsOfAStridedSourceMatter) {
  const std::array<int64_t, 2> strides{24, 8};  // every second element
  std::vector<int32_t> values(12, 1);
  auto given = give(values, HostBufferSemantics::kImmutableUntilTransferCompletes, strides);
  values[1] = 7;
  given.done_with_host_buffer.await();
  given = give(values, HostBufferSemantics::kImmutableUntilTransferCompletes, strides);
  values[2] = 7;
  EXPECT_EQ(code_of([&] { given.done_with_host_buffer.await(); }),
            pjrt::ErrorCode::kFailedPrecondition);
}

TEST_P(ChaosHostMemory, ATargetHoldsAPatternUntilItsEventIsReady) {
  const std::vector<int32_t> values{1, 2, 3, 4, 5, 6};
  const auto given = give(values, HostBufferSemantics::kImmutableOnlyDuringCall);
  std::vector<int32_t> target(7, -1);
  const pjrt::Event event = given.buffer.copy_to_host(target.data(), 28);
  EXPECT_EQ(target, (std::vector<int32_t>{static_cast<int32_t>(0xA5A5A5A5), target[0], target[0],
                                          target[0], target[0], target[0], -1}));
  event.await();
  EXPECT_EQ(target, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, -1}));
  EXPECT_EQ(chaos().count("targets_filled"), 1);
}

TEST_P(ChaosHostMemory, APieceOfABufferIsWatchedToo) {
  const std::vector<int32_t> values{1, 2, 3, 4, 5, 6};
  const auto given = give(values, HostBufferSemantics::kImmutableOnlyDuringCall);
  std::array<int32_t, 2> target{-1, -1};
  pjrt::Event event;
  try {
    event = given.buffer.copy_raw_to_host(target.data(), 8, 8);
  } catch (const pjrt::Error& error) {
    GTEST_SKIP() << error.what();
  }
  event.await();
  EXPECT_EQ(target, (std::array<int32_t, 2>{3, 4}));
}

}  // namespace
}  // namespace torch_pjrt
