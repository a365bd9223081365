#pragma once

#include <mutex>

namespace torch_pjrt::graph {

// Guards what recording shares between threads: the values of cells, the lists of pending cells
// and the moment at which a node becomes device data. A leaf lock, held for nanoseconds: nothing
// is destroyed, compiled, executed or waited for under it.
inline std::mutex& recording_mutex() noexcept {
  static std::mutex mutex;
  return mutex;
}
using RecordingLock = std::lock_guard<std::mutex>;

}  // namespace torch_pjrt::graph
