#pragma once

#include <c10/core/Stream.h>

#include <vector>

namespace torch_pjrt::aten {

// The streams of an accelerator that use memory of a PJRT device, which therefore is let go after
// them: the one that got it, and those of Tensor.record_stream(), which PyTorch's allocator knows
// for its own memory only. An object for each time the memory is given to PyTorch; all that have
// the address get what is recorded for it. Any thread.
class StreamUses {
 public:
  // `address`: where the storage begins.
  StreamUses(const void* address, const c10::Stream& first);
  ~StreamUses();
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  // Nothing is recorded any more.
  std::vector<c10::Stream> finish() noexcept;

  static void record(const void* address, const c10::Stream& stream);

 private:
  const void* address_;
  std::vector<c10::Stream> streams_;
};

}  // namespace torch_pjrt::aten
