// Transfers against the memcpy of the same bytes, in one run:
//   TORCH_PJRT_TEST_PLUGINS=<plugin> transfer_benchmark
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/plugin.h"
#include "transfer/device_to_host.h"
#include "transfer/host_memory_pool.h"
#include "transfer/host_to_device.h"
#include "transfer/strided_copy.h"

namespace torch_pjrt::transfer {
namespace {

using pjrt::ElementType;

constexpr int64_t kLarge = int64_t{64} << 20;
constexpr int64_t kSide = 4096;  // kSide squared floats are kLarge bytes

const pjrt::Client& client() {
  static const auto made = [] {
    const char* text = std::getenv("TORCH_PJRT_TEST_PLUGINS");
    const std::string paths = text ? text : "";
    return pjrt::Client::create(pjrt::Plugin::load(paths.substr(0, paths.find(':'))));
  }();
  return *made;
}

pjrt::Device device() { return client().addressable_devices().front(); }

HostBlock warm(int64_t bytes) {
  HostBlock block = HostMemoryPool::shared().allocate(bytes);
  std::memset(block.data(), 1, bytes);
  return block;
}

// Memory as a program has it: touched, on small pages, aligned as PyTorch does it.
struct Free {
  void operator()(float* memory) const noexcept { std::free(memory); }
};
class ProgramMemory {
 public:
  explicit ProgramMemory(int64_t count)
      : memory_(static_cast<float*>(std::aligned_alloc(64, (count * 4 + 63) / 64 * 64))) {
    std::fill_n(memory_.get(), count, 1.0f);
  }
  float* data() const noexcept { return memory_.get(); }

 private:
  std::unique_ptr<float, Free> memory_;
};

ProgramMemory program_memory(int64_t count) { return ProgramMemory(count); }

void memcpy_parallel(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const auto source = program_memory(bytes / 4);
  HostBlock to = warm(bytes);
  for (auto _ : state) parallel_memcpy(to.data(), source.data(), bytes);
  state.SetBytesProcessed(state.iterations() * bytes);
}
BENCHMARK(memcpy_parallel)->Arg(kLarge)->UseRealTime();

void memcpy_one_thread(benchmark::State& state) {
  const auto source = program_memory(kLarge / 4);
  HostBlock to = warm(kLarge);
  for (auto _ : state) std::memcpy(to.data(), source.data(), kLarge);
  state.SetBytesProcessed(state.iterations() * kLarge);
}
BENCHMARK(memcpy_one_thread)->UseRealTime();

void memcpy_two_threads(benchmark::State& state) {
  const auto source = program_memory(kLarge / 4);
  HostBlock to = warm(kLarge);
  char* const target = static_cast<char*>(to.data());
  for (auto _ : state) {
    std::thread half([&] { std::memcpy(target, source.data(), kLarge / 2); });
    std::memcpy(target + kLarge / 2, source.data() + kLarge / 8, kLarge / 2);
    half.join();
  }
  state.SetBytesProcessed(state.iterations() * kLarge);
}
BENCHMARK(memcpy_two_threads)->UseRealTime();

struct Layout {
  const char* name;
  std::vector<int64_t> dims, strides;  // of float32, in bytes
  int64_t span;                        // floats in memory
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"dense", {kSide, kSide}, {kSide * 4, 4}, kSide * kSide},
      {"transposed", {kSide, kSide}, {4, kSide * 4}, kSide * kSide},
      {"transposed_odd", {4096, 4096}, {4, 4100 * 4}, 4096 * 4100},
      {"rows_with_gaps", {kSide, kSide}, {(kSide + 64) * 4, 4}, kSide * (kSide + 64)},
      {"every_second_column", {kSide, kSide}, {kSide * 8, 8}, kSide * kSide * 2},
      {"flipped", {kSide, kSide}, {kSide * 4, -4}, kSide * kSide},
      {"permuted_4d",
       {16, 64, 128, 128},
       {64 * 256 * 128 * 4, 4, 64 * 256 * 4, 64 * 4},
       int64_t{16} * 64 * 256 * 128},
      {"channels_last_rgb", {85, 3, 256, 256}, {196608 * 4, 4, 768 * 4, 12}, 85 * 196608},
  };
  return all;
}

struct Source {
  explicit Source(const Layout& layout) : memory(program_memory(layout.span)) {
    data = memory.data();
    for (size_t i = 0; i < layout.dims.size(); ++i) {
      if (layout.strides[i] < 0) data -= (layout.dims[i] - 1) * layout.strides[i] / 4;
    }
    bytes = element_count(layout.dims) * 4;
  }
  ProgramMemory memory;
  float* data;
  int64_t bytes;
};

void pack_layout(benchmark::State& state) {
  const Layout& layout = layouts()[state.range(0)];
  state.SetLabel(layout.name);
  const Source source(layout);
  HostBlock to = warm(source.bytes);
  for (auto _ : state) pack(to.data(), source.data, layout.dims, layout.strides, 4);
  state.SetBytesProcessed(state.iterations() * source.bytes);
}
BENCHMARK(pack_layout)->DenseRange(0, 7)->UseRealTime();

void unpack_layout(benchmark::State& state) {
  const Layout& layout = layouts()[state.range(0)];
  state.SetLabel(layout.name);
  const Source target(layout);
  HostBlock from = warm(target.bytes);
  for (auto _ : state) unpack(target.data, from.data(), layout.dims, layout.strides, 4);
  state.SetBytesProcessed(state.iterations() * target.bytes);
}
BENCHMARK(unpack_layout)->DenseRange(0, 7)->UseRealTime();

void to_device(benchmark::State& state) {
  const Layout& layout = layouts()[state.range(0)];
  state.SetLabel(layout.name);
  const Source source(layout);
  for (auto _ : state) {
    pjrt::Buffer buffer = host_to_device(
        client(), device(), {source.data, ElementType::kF32, layout.dims, layout.strides});
    buffer.ready_event().await();
  }
  state.SetBytesProcessed(state.iterations() * source.bytes);
}
BENCHMARK(to_device)->DenseRange(0, 7)->UseRealTime();

void to_host(benchmark::State& state) {
  const Layout& layout = layouts()[state.range(0)];
  state.SetLabel(layout.name);
  const Source target(layout);
  HostBlock block = warm(target.bytes);
  pjrt::Buffer buffer =
      block_to_device(client(), device(), {ElementType::kF32, layout.dims}, std::move(block));
  for (auto _ : state) {
    device_to_host(client(), buffer, {target.data, layout.dims, layout.strides});
  }
  state.SetBytesProcessed(state.iterations() * target.bytes);
}
BENCHMARK(to_host)->DenseRange(0, 7)->UseRealTime();

// By size: ours, and the plugin's own copy during the call.
void to_device_by_size(benchmark::State& state) {
  const int64_t bytes = state.range(0), count = bytes / 4;
  const auto source = program_memory(count);
  for (auto _ : state) {
    pjrt::Buffer buffer =
        host_to_device(client(), device(), {source.data(), ElementType::kF32, {&count, 1}, {}});
    buffer.ready_event().await();
  }
}
BENCHMARK(to_device_by_size)->RangeMultiplier(4)->Range(16, 16 << 20)->UseRealTime();

void plugin_to_device(benchmark::State& state, pjrt::HostBufferSemantics semantics) {
  const int64_t bytes = state.range(0), count = bytes / 4;
  const auto source = program_memory(count);
  pjrt::HostArray array;
  array.data = source.data();
  array.type = ElementType::kF32;
  array.dimensions = {&count, 1};
  array.device = device();
  array.semantics = semantics;
  for (auto _ : state) {
    pjrt::HostTransfer given = client().buffer_from_host(array);
    given.buffer.ready_event().await();
    given.done_with_host_buffer.await();
  }
}
BENCHMARK_CAPTURE(plugin_to_device, during_call,
                  pjrt::HostBufferSemantics::kImmutableOnlyDuringCall)
    ->RangeMultiplier(4)
    ->Range(16, 64 << 20)
    ->UseRealTime();
BENCHMARK_CAPTURE(plugin_to_device, until_done,
                  pjrt::HostBufferSemantics::kImmutableUntilTransferCompletes)
    ->RangeMultiplier(4)
    ->Range(64 << 10, 64 << 20)
    ->UseRealTime();

void to_host_by_size(benchmark::State& state) {
  const int64_t bytes = state.range(0), count = bytes / 4;
  auto target = program_memory(count);
  const pjrt::Buffer buffer =
      host_to_device(client(), device(), {target.data(), ElementType::kF32, {&count, 1}, {}});
  for (auto _ : state) device_to_host(client(), buffer, {target.data(), {&count, 1}, {}});
}
BENCHMARK(to_host_by_size)->RangeMultiplier(16)->Range(16, 16 << 20)->UseRealTime();

void plugin_to_host(benchmark::State& state) {
  const int64_t bytes = state.range(0), count = bytes / 4;
  auto target = program_memory(count);
  const pjrt::Buffer buffer =
      host_to_device(client(), device(), {target.data(), ElementType::kF32, {&count, 1}, {}});
  for (auto _ : state) buffer.copy_to_host(target.data(), bytes).await();
}
BENCHMARK(plugin_to_host)->RangeMultiplier(16)->Range(16, 16 << 20)->UseRealTime();

void batch_to_device(benchmark::State& state) {
  constexpr int64_t count = 16384;  // 64 KiB
  const ProgramMemory memory = program_memory(1000 * count);
  std::vector<HostToDeviceCopy> copies;
  for (int64_t i = 0; i < 1000; ++i) {
    copies.push_back(
        {device(), {memory.data() + i * count, ElementType::kF32, {&count, 1}, {}}, {}});
  }
  for (auto _ : state) host_to_device(client(), copies).back().ready_event().await();
  state.SetBytesProcessed(state.iterations() * 1000 * count * 4);
}
BENCHMARK(batch_to_device)->UseRealTime();

void batch_to_host(benchmark::State& state) {
  constexpr int64_t count = 16384;  // 64 KiB
  std::vector<std::vector<float>> targets(1000, std::vector<float>(count));
  std::vector<pjrt::Buffer> buffers;
  std::vector<DeviceToHostCopy> copies;
  for (auto& target : targets) {
    buffers.push_back(
        host_to_device(client(), device(), {target.data(), ElementType::kF32, {&count, 1}, {}}));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    copies.push_back({&buffers[i], {targets[i].data(), {&count, 1}, {}}});
  }
  for (auto _ : state) device_to_host(client(), copies);
  state.SetBytesProcessed(state.iterations() * 1000 * count * 4);
}
BENCHMARK(batch_to_host)->UseRealTime();

}  // namespace
}  // namespace torch_pjrt::transfer

BENCHMARK_MAIN();
