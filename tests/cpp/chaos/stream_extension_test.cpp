// PJRT's stream extension as the plugin has it: whole, not at all, failing, or shorter than ours.
#include "pjrt/stream_extension.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "chaos/chaos_test_support.h"
#include "simulated_accelerator/abi.h"

namespace torch_pjrt {
namespace {

using pjrt::ErrorCode;

// The same that the chaos plugin has.
const SimulatedAccelerator& simulator() {
  static const SimulatedAccelerator* const table = [] {
    const char* const path = std::getenv("SIMULATED_ACCELERATOR_LIBRARY");
    void* const library = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    void* const symbol = library != nullptr ? dlsym(library, "simulated_accelerator") : nullptr;
    if (symbol == nullptr) {
      throw std::runtime_error("set SIMULATED_ACCELERATOR_LIBRARY to libsimulated_accelerator.so");
    }
    return reinterpret_cast<const SimulatedAccelerator* (*)()>(symbol)();
  }();
  return *table;
}

intptr_t handle_of(SimulatedStream* stream) { return reinterpret_cast<intptr_t>(stream); }

// Memory of the accelerator as a buffer, whose contents come when `arrive` is called.
class LateArray {
 public:
  LateArray(pjrt::Client& client, pjrt::Device device, intptr_t ready_stream)
      : memory_(std::aligned_alloc(64, kBytes)), came_(simulator().make_event()) {
    if (memory_ == nullptr) throw std::bad_alloc();
    simulator().begin(came_);
    simulator().wait(reinterpret_cast<SimulatedStream*>(ready_stream), came_);
    const int64_t count = kBytes / sizeof(float);
    buffer_ = client.create_view(
        simulator().device_address(memory_, 0), {pjrt::ElementType::kF32, {&count, 1}}, device,
        [](void*, void* memory) { std::free(memory); }, memory_, ready_stream);
  }
  LateArray(const LateArray&) = delete;
  ~LateArray() {
    arrive();
    simulator().release_event(came_);
  }

  pjrt::Buffer& buffer() { return buffer_; }
  void arrive() { simulator().finish(came_); }

 private:
  static constexpr size_t kBytes = 256;
  void* memory_;
  SimulatedEvent* came_;
  pjrt::Buffer buffer_;
};

bool comes_to_pass(const std::atomic<bool>& flag, std::chrono::milliseconds within) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!flag && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return flag;
}

void raise_on(SimulatedStream* stream, std::atomic<bool>& flag) {
  simulator().enqueue(
      stream, [](void* argument) { *static_cast<std::atomic<bool>*>(argument) = true; }, &flag);
}

class StreamExtension : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { chaos().configure(""); }
  void TearDown() override {
    chaos().configure("");
    EXPECT_EQ(chaos().count("errors_alive"), 0);
    EXPECT_EQ(chaos().count("events_alive"), 0);
    EXPECT_EQ(chaos().count("buffers_alive"), 0);
  }
  // Never destroyed: one for each plugin.
  Chaos& chaos() {
    static auto* const all = new std::map<std::string, std::unique_ptr<Chaos>>;
    auto& chaos = (*all)[GetParam()];
    if (chaos == nullptr) {
      simulator();
      const std::string library = std::getenv("SIMULATED_ACCELERATOR_LIBRARY");
      chaos = std::make_unique<Chaos>(GetParam(), "simulates=" + library);
    }
    return *chaos;
  }
  pjrt::Client& client() { return chaos().client(); }
  pjrt::Device device() { return chaos().device(); }
  std::optional<intptr_t> ready_stream() {
    return pjrt::stream_for_ready_events(client(), device());
  }
  pjrt::Buffer array() {
    static constexpr float kValues[] = {1, 2, 3, 4};
    static constexpr int64_t kCount = 4;
    pjrt::HostArray host;
    host.data = kValues;
    host.type = pjrt::ElementType::kF32;
    host.dimensions = {&kCount, 1};
    host.device = device();
    return client().buffer_from_host(host).buffer;
  }
  // Whether work on a stream that was told to wait comes after the contents, and not before.
  bool orders() {
    LateArray late(client(), device(), ready_stream().value());
    SimulatedStream* const stream = simulator().make_stream();
    static std::atomic<bool> is_done;  // outlives a stream that is late
    is_done = false;
    EXPECT_TRUE(pjrt::wait_on_stream(client(), late.buffer(), handle_of(stream)));
    raise_on(stream, is_done);
    const bool too_early = comes_to_pass(is_done, std::chrono::milliseconds(50));
    late.arrive();
    EXPECT_TRUE(comes_to_pass(is_done, std::chrono::seconds(10)));
    return !too_early;
  }
};
RUN_ON_EACH_PLUGIN(StreamExtension);

TEST_P(StreamExtension, LetsAStreamWaitForContentsAndNotTheHost) {
  ASSERT_NE(ready_stream().value_or(0), 0);
  EXPECT_TRUE(orders());
  chaos().configure("leave_out=wait_stream");
  EXPECT_FALSE(orders());
}

TEST_P(StreamExtension, MayBeAbsent) {
  const pjrt::Buffer buffer = array();
  SimulatedStream* const stream = simulator().make_stream();
  for (const char* absent :
       {"hide_extensions=Stream", "hide_extensions=all", "stream_extension=empty"}) {
    chaos().configure(absent);
    EXPECT_EQ(ready_stream(), std::nullopt) << absent;
    EXPECT_FALSE(pjrt::wait_on_stream(client(), buffer, handle_of(stream))) << absent;
  }
  chaos().configure("");
  EXPECT_TRUE(pjrt::wait_on_stream(client(), buffer, handle_of(stream)));
}

TEST_P(StreamExtension, IsNotReadBeyondAnOlderPluginsStruct) {
  const pjrt::Buffer buffer = array();
  const intptr_t stream = ready_stream().value();
  chaos().configure("stream_extension=short");
  EXPECT_EQ(ready_stream(), stream);
  EXPECT_FALSE(pjrt::wait_on_stream(client(), buffer, stream));
}

TEST_P(StreamExtension, FailuresNameWhatWasAsked) {
  const pjrt::Buffer buffer = array();
  const intptr_t stream = ready_stream().value();
  chaos().configure("stream_extension=failing");
  const auto message = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const pjrt::Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      return error.what();
    }
    return "nothing";
  };
  EXPECT_NE(message([&] { ready_stream(); }).find("ask a device for its stream"),
            std::string::npos);
  EXPECT_NE(message([&] {
              pjrt::wait_on_stream(client(), buffer, stream);
            }).find("wait for a buffer on a stream"),
            std::string::npos);
}

TEST_P(StreamExtension, RefusesABufferThatIsGone) {
  pjrt::Buffer buffer = array();
  buffer.ready_event().await("wait for an array");
  const intptr_t stream = ready_stream().value();
  buffer.delete_now();
  EXPECT_EQ(code_of([&] { pjrt::wait_on_stream(client(), buffer, stream); }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace torch_pjrt
