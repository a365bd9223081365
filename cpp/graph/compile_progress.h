#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

namespace torch_pjrt::graph {

// Tells a person, on stderr, that a compilation takes long: a line once it has taken two seconds,
// and one when it is done. Lives as long as the compilation. Says nothing while it is switched off.
class CompileProgress {
 public:
  // `operations`: how large the program is, for the line.
  explicit CompileProgress(size_t operations);
  ~CompileProgress();
  CompileProgress(const CompileProgress&) = delete;
  CompileProgress& operator=(const CompileProgress&) = delete;

  // Of the process; off until somebody turns it on.
  static void set_shown(bool shown) noexcept;
  static bool shown() noexcept;

 private:
  void watch(size_t operations);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;  // under the mutex
  std::thread watcher_;   // none while it is switched off
};

}  // namespace torch_pjrt::graph
