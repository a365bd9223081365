#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/inline_vector.h"
#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::transfer {

// A copy to the host that nobody waits for yet.
struct DeferredCopy {
  using Numbers = base::InlineVector<int64_t, 6>;

  const pjrt::Client* client = nullptr;  // lives as long as the process
  const pjrt::Buffer* buffer = nullptr;
  void* data = nullptr;
  Numbers dimensions;
  Numbers byte_strides;          // empty: dense row-major
  std::unique_ptr<Holder> keep;  // the buffer, undonated, and the target's memory
};

// Copies to the host that are made, in the order in which they were added, once their buffers are
// ready: on a thread of their own, those that wait together in parallel. The targets are complete
// after wait(); whoever reads or writes one of them by another copy waits first, as on a stream.
class DeferredCopies {
 public:
  // Any thread; does not wait. Throws std::system_error without a thread.
  static void add(DeferredCopy copy);

  // Waits (BlockingRegion) for all that were added before the call. Nothing to do in a forked
  // child.
  static void wait() noexcept;
  // The same, then throws pjrt::Error: the first error since the last call of this function.
  static void wait_and_throw();

  static bool are_pending() noexcept;
};

}  // namespace torch_pjrt::transfer
