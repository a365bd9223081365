#pragma once

#include <cstddef>
#include <functional>

namespace torch_pjrt::transfer {

// A few threads that help a caller through a list of independent pieces of work.
// The threads start at the first use and live until the process ends. In a forked child, while
// another caller uses them, or when there is one core only, the caller does all the work itself.
class TransferThreads {
 public:
  // Threads that work on one call, the caller's own among them: the cores this process may use,
  // at most 8; the environment variable TORCH_PJRT_TRANSFER_THREADS overrides it.
  static size_t count();

  // Calls work(0) ... work(pieces - 1), each once, in any order and on any of the threads, and
  // returns when all are done. `work` must not throw.
  static void run(size_t pieces, const std::function<void(size_t)>& work);
};

}  // namespace torch_pjrt::transfer
