// A transfer's source whose last reference is dropped by the done event, and whose destruction
// needs an interpreter's lock, while a thread that waits for a device has that lock.
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/blocking_region.h"
#include "chaos/chaos_test_support.h"
#include "transfer/device_to_host.h"
#include "transfer/host_to_device.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt {
namespace {

using namespace std::chrono_literals;

// Stands for an interpreter's lock; a thread that waits longer than `patience` for it calls that a
// deadlock and goes on, so that the test ends.
class InterpreterLock {
 public:
  std::atomic<int> deadlocks{0};
  std::chrono::milliseconds patience{60000};

  void lock() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return !is_held_; });
    is_held_ = true;
  }
  void unlock() {
    {
      std::lock_guard lock(mutex_);
      is_held_ = false;
    }
    freed_.notify_all();  // who only uses it passes nothing on
  }
  void use() {
    std::unique_lock lock(mutex_);
    // By the system's clock: ThreadSanitizer does not see waits by another.
    const auto until = std::chrono::system_clock::now() + patience;
    if (!freed_.wait_until(lock, until, [this] { return !is_held_; })) ++deadlocks;
  }
  static InterpreterLock& instance() {
    static auto* const lock = new InterpreterLock;
    return *lock;
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  bool is_held_ = false;
};

thread_local bool has_lock = false;

// A thread that runs the interpreter.
class Interpreting {
 public:
  Interpreting() {
    InterpreterLock::instance().lock();
    has_lock = true;
  }
  ~Interpreting() {
    has_lock = false;
    InterpreterLock::instance().unlock();
  }
};

constexpr base::BlockingHooks kHooks{[]() noexcept -> void* {
                                       if (!has_lock) return nullptr;
                                       has_lock = false;
                                       InterpreterLock::instance().unlock();
                                       return &InterpreterLock::instance();
                                     },
                                     [](void*) noexcept {
                                       InterpreterLock::instance().lock();
                                       has_lock = true;
                                     }};

// What an array owns: memory, and an object of the interpreter.
struct Source {
  explicit Source(size_t size) : values(size, 1.5f) {}
  Source(Source&&) = default;
  ~Source() {
    if (!values.empty()) InterpreterLock::instance().use();
  }
  std::vector<float> values;
};

class ChaosDeadlock : public WithChaos {
 protected:
  void SetUp() override {
    WithChaos::SetUp();
    InterpreterLock::instance().deadlocks = 0;
    InterpreterLock::instance().patience = 60s;
    base::set_blocking_hooks(&kHooks);
    chaos().configure("aliasing=refused;delay_ms=3;order=random;seed=11");
  }
  void TearDown() override {
    transfer::Reclaimer::instance().drain(30s);
    base::set_blocking_hooks(nullptr);
    WithChaos::TearDown();
  }

  // Sends arrays and reads them back from several threads, all of which run the interpreter.
  void transfer_both_ways(int threads, const pjrt::Client& client) {
    constexpr int64_t kSize = 40000;  // above kSmallTransfer: the device reads the source later
    const auto work = [&](int thread) {
      const Interpreting interpreting;
      const auto devices = client.addressable_devices();
      const pjrt::Device device = devices[static_cast<size_t>(thread) % devices.size()];
      for (int i = 0; i < 10; ++i) {
        auto source = std::make_unique<Source>(kSize);
        const transfer::HostSource array{
            source->values.data(), pjrt::ElementType::kF32, {&kSize, 1}, {}};
        const pjrt::Buffer buffer = transfer::host_to_device(
            client, device, array, [&] { return transfer::hold(std::move(*source)); });
        source.reset();  // the transfer has the only reference
        std::vector<float> back(kSize);
        transfer::device_to_host(client, buffer, {back.data(), {&kSize, 1}, {}});
        EXPECT_EQ(back, std::vector<float>(kSize, 1.5f));
      }
    };
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back(work, i);
    for (std::thread& worker : workers) worker.join();
    EXPECT_TRUE(transfer::Reclaimer::instance().drain(30s));
    EXPECT_EQ(InterpreterLock::instance().deadlocks, 0);
  }
};
RUN_ON_EACH_PLUGIN(ChaosDeadlock);

TEST_P(ChaosDeadlock, HangsWhenTheCallbackDropsTheSourceAndTheWaiterKeepsTheLock) {
  InterpreterLock::instance().patience = 300ms;
  chaos().configure("aliasing=refused;delay_ms=20");
  const Interpreting interpreting;
  const int64_t size = 40000;
  auto* const source = new Source(static_cast<size_t>(size));
  pjrt::HostArray array;
  array.data = source->values.data();
  array.type = pjrt::ElementType::kF32;
  array.dimensions = {&size, 1};
  array.semantics = pjrt::HostBufferSemantics::kImmutableUntilTransferCompletes;
  array.device = device();
  const pjrt::HostTransfer given = client().buffer_from_host(array);
  given.done_with_host_buffer.on_ready([source](const pjrt::Error*) noexcept { delete source; });
  std::vector<float> back(static_cast<size_t>(size));
  const pjrt::Event copied = given.buffer.copy_to_host(back.data(), back.size() * sizeof(float));
  base::set_blocking_hooks(nullptr);  // so the wait keeps the lock
  copied.await();
  EXPECT_EQ(InterpreterLock::instance().deadlocks, 1);
  base::set_blocking_hooks(&kHooks);
}

TEST_P(ChaosDeadlock, DoesNotHappenToTransfersOnOneDevice) { transfer_both_ways(8, client()); }

TEST_P(ChaosDeadlock, DoesNotHappenToTransfersOnFourDevices) {
  const auto four =
      pjrt::Client::create(chaos().shared_plugin(), {{"cpu_device_count", int64_t{4}}});
  ASSERT_EQ(four->addressable_devices().size(), 4u);
  transfer_both_ways(8, *four);
}

}  // namespace
}  // namespace torch_pjrt
