#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include "base/ref_counted.h"
#include "graph/failure.h"
#include "pjrt/buffer.h"

namespace torch_pjrt::graph {

// A device buffer shared by every value that reads it, or the reason why there is none.
// Immutable once made, but for `failure`, which the executor sets under the recording lock when
// the buffer was given away to an execution that failed.
class SharedBuffer : public base::RefCounted<SharedBuffer> {
 public:
  explicit SharedBuffer(pjrt::Buffer buffer) noexcept : buffer(std::move(buffer)) {}
  explicit SharedBuffer(FailurePtr failure) noexcept : failure(std::move(failure)) {}

  ~SharedBuffer() {
    if (leaks()) new (leaked_) pjrt::Buffer(std::move(buffer));
  }

  // In a forked child the plugin's threads are gone: from now on buffers are not destroyed.
  static void leak_all() noexcept { leaks_.store(true, std::memory_order_relaxed); }
  static bool leaks() noexcept { return leaks_.load(std::memory_order_relaxed); }

  static void check_not_forked() {
    if (!leaks()) [[likely]]
      return;
    throw pjrt::Error(pjrt::ErrorCode::kFailedPrecondition, "use device xla",
                      "this process was forked after the PJRT client was made, and a client does "
                      "not survive a fork; use cpu tensors here, or start the process with "
                      "multiprocessing's spawn method");
  }

  // Tells this buffer from every other that was or will be made in this process.
  uint64_t id() const noexcept { return id_; }

  pjrt::Buffer buffer;
  FailurePtr failure;

  // Set before the buffer is shared. The memory was lent by its owner, to be read only: no program
  // may write its result there.
  bool is_lent = false;
  // How many others outside may write the memory at any time, through an explicit alias. Who
  // promises a copy then has to make one.
  std::atomic<int> outside_writers{0};
  bool has_outside_writers() const noexcept { return outside_writers.load() != 0; }
  // Whether work that no execution waits for, such as a copy to another device, may read the
  // memory after the last reference is gone.
  std::atomic<bool> is_read_elsewhere{false};
  // The number of the last execution on its device that reads the buffer; 0 for none. Written by
  // the executor, with its turn.
  std::atomic<uint64_t> last_reader{0};

 private:
  static uint64_t next_id() noexcept {
    static std::atomic<uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  const uint64_t id_ = next_id();
  static inline std::atomic<bool> leaks_{false};
  alignas(pjrt::Buffer) unsigned char leaked_[sizeof(pjrt::Buffer)];  // never destroyed
};
using SharedBufferPtr = base::RefPtr<SharedBuffer>;

}  // namespace torch_pjrt::graph
