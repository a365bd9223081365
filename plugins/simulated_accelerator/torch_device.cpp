// The simulated accelerator as PyTorch's PrivateUse1 device: memory, streams, events and hooks.
#include "torch_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <unordered_map>
#include <vector>

namespace simulated {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr size_t kMaxDevices = 8;

thread_local c10::DeviceIndex current_device = 0;
// Each device's current stream on this thread; null: its default one.
thread_local std::array<SimulatedStream*, kMaxDevices> current_streams{};

// A stream's id in PyTorch is its address, so that streams made elsewhere have one, too.
c10::Stream to_torch(SimulatedStream* stream, c10::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(stream));
}

SimulatedStream* default_stream(c10::Device device) {
  static auto* const streams = [] {
    auto* made = new std::array<SimulatedStream*, kMaxDevices>{};
    for (int i = 0; i < accelerator().device_count; ++i) (*made)[i] = accelerator().make_stream();
    return made;
  }();
  return (*streams)[device.index()];
}

SimulatedStream* to_simulated(const c10::Stream& stream) {
  return stream.id() == 0 ? default_stream(stream.device())
                          : reinterpret_cast<SimulatedStream*>(stream.id());
}

c10::Device full(c10::Device device) {
  return device.has_index() ? device : c10::Device(kType, current_device);
}

SimulatedStream* current_stream(c10::Device device) {
  SimulatedStream* const stream = current_streams[full(device).index()];
  return stream != nullptr ? stream : default_stream(full(device));
}

void drain(SimulatedStream* stream) {
  // By work, as tests leave out the waits for events.
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  } done;
  accelerator().enqueue(
      stream,
      [](void* argument) {
        auto& state = *static_cast<Done*>(argument);
        const std::lock_guard lock(state.mutex);
        state.done = true;
        state.changed.notify_all();
      },
      &done);
  std::unique_lock lock(done.mutex);
  done.changed.wait(lock, [&] { return done.done; });
}

struct Block {
  size_t bytes = 0;
  c10::DeviceIndex device = 0;
  std::set<SimulatedStream*> used_on;  // by record_stream
};

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(kType, current_device);
    if (bytes == 0) return {nullptr, device};
    const size_t size = (bytes + 255) / 256 * 256;
    void* memory = nullptr;
    {
      const std::lock_guard lock(mutex_);
      std::vector<void*>& free = free_[{device.index(), size}];
      if (!free.empty()) {
        memory = free.back();
        free.pop_back();
      } else {
        memory = std::aligned_alloc(256, size);
        if (memory == nullptr) throw std::bad_alloc();
      }
      blocks_[memory] = {size, device.index(), {}};
    }
    void* const address = accelerator().device_address(memory, device.index());
    return {address, address, &release, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    void* const target = real(to);
    const void* const source = real(from);
    enqueue({kType, current_device}, [=] { std::memcpy(target, source, bytes); });
  }

  void record(const c10::DataPtr& data, SimulatedStream* stream) {
    const std::lock_guard lock(mutex_);
    if (data.get_deleter() != &release) return;
    blocks_.at(real(data.get())).used_on.insert(stream);
  }

 private:
  static void release(void* address);

  void give_back(void* memory) {
    const std::lock_guard lock(mutex_);
    const Block& block = blocks_.at(memory);
    free_[{block.device, block.bytes}].push_back(memory);
  }

  void free(void* memory) {
    std::set<SimulatedStream*> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = blocks_.at(memory).used_on;
    }
    if (streams.empty()) return give_back(memory);
    struct Pending {
      Memory& owner;
      void* memory;
      std::atomic<size_t> streams;
    };
    auto* const pending = new Pending{*this, memory, streams.size()};
    for (SimulatedStream* const stream : streams) {
      accelerator().enqueue(
          stream,
          [](void* argument) {
            auto* const state = static_cast<Pending*>(argument);
            if (--state->streams != 0) return;
            state->owner.give_back(state->memory);
            delete state;
          },
          pending);
    }
  }

  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, size_t>, std::vector<void*>> free_;
  std::unordered_map<void*, Block> blocks_;
};

Memory& memory() {
  static auto* const memory = new Memory;
  return *memory;
}

void Memory::release(void* address) { memory().free(real(address)); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr c10::DeviceType static_type = kType;

  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device old = getDevice();
    uncheckedSetDevice(device);
    return old;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) current_device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(accelerator().device_count);
  }

  c10::Stream getStream(c10::Device device) const override {
    return to_torch(current_stream(device), full(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return to_torch(default_stream(full(device)), full(device));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return to_torch(accelerator().make_stream(), full(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream old = getStream(stream.device());
    current_streams[stream.device_index()] = to_simulated(stream);
    return old;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return to_simulated(stream);
  }
  bool queryStream(const c10::Stream& stream) const override {
    SimulatedEvent* const event = accelerator().make_event();
    accelerator().record(event, to_simulated(stream));
    const bool done = accelerator().is_done(event) != 0;
    accelerator().release_event(event);
    return done;
  }
  void synchronizeStream(const c10::Stream& stream) const override { drain(to_simulated(stream)); }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    synchronizeStream(getDefaultStream({kType, index}));
    synchronizeStream(getStream({kType, index}));
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = accelerator().make_event();
    accelerator().record(static_cast<SimulatedEvent*>(*event), to_simulated(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    accelerator().wait(to_simulated(stream), static_cast<SimulatedEvent*>(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || accelerator().is_done(static_cast<SimulatedEvent*>(event)) != 0;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) accelerator().synchronize(static_cast<SimulatedEvent*>(event));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) accelerator().release_event(static_cast<SimulatedEvent*>(event));
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    memory().record(data, to_simulated(stream));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);
REGISTER_ALLOCATOR(kType, &memory());

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return Guard().deviceCount(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(c10::DeviceIndex index) const override { current_device = index; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current_device, index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return std::exchange(current_device, index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  c10::Device getDeviceFromPtr(void* data) const override {
    int32_t device = 0;
    TORCH_CHECK(accelerator().real_address(data, &device) != nullptr,
                "find the device of a pointer: no simulated accelerator has it");
    return {kType, static_cast<c10::DeviceIndex>(device)};
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

c10::Allocator& allocator() { return memory(); }

void* real(const void* device_address) {
  if (device_address == nullptr) return nullptr;
  void* const address = accelerator().real_address(const_cast<void*>(device_address), nullptr);
  TORCH_CHECK(address != nullptr, "use memory on a simulated accelerator: it is the host's");
  return address;
}

void enqueue(c10::Device device, std::function<void()> work) {
  accelerator().enqueue(
      current_stream(device),
      [](void* argument) {
        const std::unique_ptr<std::function<void()>> run(
            static_cast<std::function<void()>*>(argument));
        (*run)();
      },
      new std::function<void()>(std::move(work)));
}

void synchronize(c10::Device device) { drain(current_stream(device)); }

}  // namespace simulated
