#include "graph/compile_progress.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <system_error>

namespace torch_pjrt::graph {
namespace {

constexpr std::chrono::seconds kPatience{2};
std::atomic<bool> is_shown{false};

}  // namespace

void CompileProgress::set_shown(bool shown) noexcept { is_shown.store(shown); }
bool CompileProgress::shown() noexcept { return is_shown.load(); }

CompileProgress::CompileProgress(size_t operations) {
  if (!shown()) return;
  try {
    watcher_ = std::thread([this, operations] { watch(operations); });
  } catch (const std::system_error&) {
    // No thread to be had: the program is compiled all the same.
  }
}

CompileProgress::~CompileProgress() {
  if (!watcher_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    is_done_ = true;
  }
  changed_.notify_one();
  watcher_.join();
}

void CompileProgress::watch(size_t operations) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kPatience, [this] { return is_done_; })) return;
  std::fprintf(stderr, "torch_pjrt: compiling a program of %zu operations takes a while\n",
               operations);
  changed_.wait(lock, [this] { return is_done_; });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "torch_pjrt: compiled it in %.1f s\n", taken.count());
}

}  // namespace torch_pjrt::graph
