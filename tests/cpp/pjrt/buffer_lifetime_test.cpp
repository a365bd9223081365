#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "arrays.h"
#include "base/metrics.h"
#include "on_each_plugin.h"
#include "programs.h"

namespace torch_pjrt::pjrt {
namespace {

class BufferLifetime : public OnEachPlugin {};

bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}

TEST_P(BufferLifetime, LiveBuffersAreCounted) {
  const base::Counter& live = base::gauge("pjrt.live_buffers");
  const int64_t before = live.value();
  {
    Buffer buffer = put(client(), device(), {1, 2});
    EXPECT_EQ(live.value(), before + 1);
    Buffer moved = std::move(buffer);
    EXPECT_EQ(live.value(), before + 1);
    moved = put(client(), device(), {3});
    EXPECT_EQ(live.value(), before + 1);
  }
  EXPECT_EQ(live.value(), before);
}

TEST_P(BufferLifetime, ADeletedBufferSaysSo) {
  Buffer buffer = put(client(), device(), {1, 2});
  EXPECT_FALSE(buffer.is_deleted());
  buffer.delete_now();
  EXPECT_TRUE(buffer.is_deleted());
  float received[2];
  EXPECT_THROW(buffer.copy_to_host(received, 8).await(), Error);
}

TEST_P(BufferLifetime, AnExternalReferenceKeepsTheMemory) {
  Buffer buffer = put(client(), device(), std::vector<float>(16, 2.f));
  ASSERT_TRUE(buffer.is_on_cpu());
  buffer.add_external_reference();
  const auto* memory = static_cast<const float*>(buffer.device_pointer());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory), buffer.unsafe_pointer());
  buffer.delete_now();
  EXPECT_EQ(memory[15], 2.f);
  buffer.drop_external_reference();
}

TEST_P(BufferLifetime, AZeroCopyBufferIsItsSource) {
  constexpr int64_t size = 1024;
  const std::unique_ptr<float, void (*)(void*)> memory(
      static_cast<float*>(std::aligned_alloc(64, size * sizeof(float))), std::free);
  std::fill_n(memory.get(), size, 1.f);
  HostArray source;
  source.data = memory.get();
  source.type = ElementType::kF32;
  source.dimensions = {&size, 1};
  source.semantics = HostBufferSemantics::kImmutableZeroCopy;
  source.device = device();
  HostTransfer transfer = client().buffer_from_host(source);
  EXPECT_EQ(transfer.buffer.device_pointer(), memory.get());
  memory.get()[7] = 9.f;
  EXPECT_EQ(get(transfer.buffer)[7], 9.f);
  EXPECT_FALSE(transfer.done_with_host_buffer.is_ready());
  transfer.buffer = Buffer();
  EXPECT_TRUE(soon([&] { return transfer.done_with_host_buffer.is_ready(); }));
}

TEST_P(BufferLifetime, AViewCallsItsOwnerBackOnce) {
  constexpr int64_t size = 1024;
  const std::unique_ptr<float, void (*)(void*)> memory(
      static_cast<float*>(std::aligned_alloc(64, size * sizeof(float))), std::free);
  std::fill_n(memory.get(), size, 3.f);
  static std::atomic<int> calls;
  calls = 0;
  {
    const Buffer view = client().create_view(
        memory.get(), {ElementType::kF32, {&size, 1}}, device(),
        [](void*, void* argument) { *static_cast<std::atomic<int>*>(argument) += 1; }, &calls);
    EXPECT_EQ(view.device_pointer(), memory.get());
    EXPECT_EQ(get(view)[size - 1], 3.f);
    EXPECT_EQ(calls, 0);
  }
  EXPECT_TRUE(soon([&] { return calls == 1; }));
}

TEST_P(BufferLifetime, AMisalignedViewIsRefused) {
  alignas(64) static float memory[32];
  const int64_t size = 16;
  EXPECT_THROW(
      client().create_view(memory + 1, {ElementType::kF32, {&size, 1}}, device(), nullptr, nullptr),
      Error);
}

RUN_ON_EACH_PLUGIN(BufferLifetime);

}  // namespace
}  // namespace torch_pjrt::pjrt
