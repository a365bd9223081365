#include "graph/runtime.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/blocking_region.h"
#include "graph/lock.h"
#include "transfer/dma_mapping.h"

namespace torch_pjrt::graph::runtime {
namespace {

struct State {
  std::mutex mutex;
  RuntimeSettings settings;
  std::shared_ptr<pjrt::Client> client;
  std::vector<std::unique_ptr<Executor>> executors;
  std::atomic<int> device_count{0};  // not 0 once the executors exist
};

State& state() {
  static State* state = new State;  // plugins' threads outlive static destruction
  return *state;
}

// The lock is held across a fork, so that the child does not inherit it locked.
void before_fork() noexcept { recording_mutex().lock(); }
void after_fork_in_parent() noexcept { recording_mutex().unlock(); }
void after_fork_in_child() noexcept {
  recording_mutex().unlock();
  SharedBuffer::leak_all();
}

// What an index in one signed byte, PyTorch's, can count.
constexpr int kMostDevices = 127;

int requested_devices(const RuntimeSettings& settings) {
  const auto found = settings.create_options.find("cpu_device_count");
  if (found != settings.create_options.end()) {
    if (const auto* count = std::get_if<int64_t>(&found->second)) {
      return static_cast<int>(std::clamp<int64_t>(*count, 1, kMostDevices));
    }
  }
  return 1;
}

void create(State& s) {
  if (s.settings.plugin_path.empty()) {
    throw pjrt::Error(pjrt::ErrorCode::kNotFound, "use device xla",
                      s.settings.plugin_problem.empty() ? "no PJRT plugin was chosen"
                                                        : s.settings.plugin_problem);
  }
  auto plugin = pjrt::Plugin::load(s.settings.plugin_path);
  std::shared_ptr<pjrt::Client> client =
      pjrt::Client::create(std::move(plugin), s.settings.create_options);
  if (client->addressable_devices().empty()) {
    throw pjrt::Error(pjrt::ErrorCode::kFailedPrecondition, "use device xla",
                      "the plugin " + s.settings.plugin_path +
                          " has no device for this process; got 0, expected at least 1; check the "
                          "hardware and the plugin's create options");
  }
  pjrt::CompileOptions options = s.settings.compile_options;
  options.portable = true;
  const bool is_cpu = client->platform_name() == "cpu";
  // XLA CPU's default loses a NaN on the right of a maximum.
  if (is_cpu) options.overrides.try_emplace("xla_cpu_enable_fast_min_max", false);
  auto cache = std::make_shared<CompileCache>(client, options, s.settings.cache_directory);
  const int wanted = is_cpu ? requested_devices(s.settings) : kMostDevices;
  std::vector<std::unique_ptr<Executor>> executors;
  for (pjrt::Device device : client->addressable_devices()) {
    const int index = static_cast<int>(executors.size());
    if (index == wanted) break;
    executors.push_back(std::make_unique<Executor>(client, device, cache, index));
  }
  transfer::map_pool_memory(client);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  s.client = std::move(client);
  s.executors = std::move(executors);
  s.device_count.store(static_cast<int>(s.executors.size()));
}

State& initialized() {
  State& s = state();
  if (s.device_count.load(std::memory_order_acquire) == 0) {
    base::BlockingRegion region;
    std::lock_guard lock(s.mutex);
    if (s.device_count.load() == 0) create(s);
  }
  SharedBuffer::check_not_forked();
  return s;
}

}  // namespace

void configure(RuntimeSettings settings) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (s.device_count.load() != 0) {
    throw std::logic_error(
        "configure the PJRT runtime: it is in use already; set the plugin and its options before "
        "the first use of device xla");
  }
  s.settings = std::move(settings);
}

RuntimeSettings settings() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  return s.settings;
}

bool is_forked() noexcept { return SharedBuffer::leaks(); }

bool is_initialized() noexcept { return state().device_count.load() != 0; }

int device_count() noexcept {
  State& s = state();
  if (const int count = s.device_count.load()) return count;
  std::lock_guard lock(s.mutex);
  return requested_devices(s.settings);
}

Executor& executor(int index) {
  State& s = initialized();
  if (index < 0 || index >= static_cast<int>(s.executors.size())) {
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "use device xla:" + std::to_string(index),
                      "there is no such device; got index " + std::to_string(index) +
                          ", expected less than " + std::to_string(s.executors.size()) +
                          "; torch.xla.device_count() tells how many there are");
  }
  return *s.executors[static_cast<size_t>(index)];
}

const std::shared_ptr<pjrt::Client>& client() { return initialized().client; }

std::vector<Executor*> executors() noexcept {
  std::vector<Executor*> all;
  if (is_initialized() && !is_forked()) {
    for (const auto& executor : state().executors) all.push_back(executor.get());
  }
  return all;
}

}  // namespace torch_pjrt::graph::runtime
