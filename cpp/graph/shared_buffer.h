#pragma once

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

  pjrt::Buffer buffer;
  FailurePtr failure;
};
using SharedBufferPtr = base::RefPtr<SharedBuffer>;

}  // namespace torch_pjrt::graph
