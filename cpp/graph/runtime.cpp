#include "graph/runtime.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "base/blocking_region.h"

namespace torch_pjrt::graph::runtime {
namespace {

struct State {
  std::mutex mutex;
  RuntimeSettings settings;
  std::shared_ptr<pjrt::Client> client;
  std::vector<std::unique_ptr<Executor>> executors;
  std::atomic<int> device_count{0};  // not 0 once the executors exist
  std::atomic<bool> forked{false};
};

State& state() {
  static State* state = new State;  // plugins' threads outlive static destruction
  return *state;
}

void note_fork() noexcept {
  if (state().device_count.load() != 0) state().forked.store(true);
}

void create(State& s) {
  if (s.settings.plugin_path.empty()) {
    throw pjrt::Error(pjrt::ErrorCode::kNotFound, "use device xla",
                      "there is no PJRT plugin; got none from TORCH_PJRT_PLUGIN, the settings or "
                      "installed packages, expected one; install one (pip install xla-cpu-pjrt) or "
                      "set TORCH_PJRT_PLUGIN to its path");
  }
  auto plugin = pjrt::Plugin::load(s.settings.plugin_path);
  s.client = pjrt::Client::create(std::move(plugin), s.settings.create_options);
  pjrt::CompileOptions options = s.settings.compile_options;
  options.portable = true;
  auto cache = std::make_shared<CompileCache>(s.client, options, s.settings.cache_directory);
  int index = 0;
  for (pjrt::Device device : s.client->addressable_devices()) {
    s.executors.push_back(std::make_unique<Executor>(s.client, device, cache, index++));
  }
  pthread_atfork(nullptr, nullptr, note_fork);
  s.device_count.store(index);
}

State& initialized() {
  State& s = state();
  if (s.device_count.load(std::memory_order_acquire) == 0) {
    base::BlockingRegion region;
    std::lock_guard lock(s.mutex);
    if (s.device_count.load() == 0) create(s);
  }
  if (s.forked.load(std::memory_order_relaxed)) {
    throw pjrt::Error(pjrt::ErrorCode::kFailedPrecondition, "use device xla",
                      "this process was forked after the PJRT client was made, and a client does "
                      "not survive a fork; use cpu tensors here, or start the process with "
                      "multiprocessing's spawn method");
  }
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

bool is_initialized() noexcept { return state().device_count.load() != 0; }

int device_count() noexcept {
  State& s = state();
  if (const int count = s.device_count.load()) return count;
  std::lock_guard lock(s.mutex);
  const auto found = s.settings.create_options.find("cpu_device_count");
  if (found != s.settings.create_options.end()) {
    if (const auto* count = std::get_if<int64_t>(&found->second)) return static_cast<int>(*count);
  }
  return 1;
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
  if (is_initialized()) {
    for (const auto& executor : state().executors) all.push_back(executor.get());
  }
  return all;
}

}  // namespace torch_pjrt::graph::runtime
