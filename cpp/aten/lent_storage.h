#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>

#include "base/ref_counted.h"

namespace torch_pjrt::aten {

// Memory that a storage, on the cpu or on an accelerator, lends to a device. The memory stays as it
// is while somebody holds the loan: the storage's first write copies its bytes to other memory,
// counted as import.materialised, or takes the memory back when it is the only holder left. May be
// released on any thread.
class Loan : public base::RefCounted<Loan> {
 public:
  explicit Loan(c10::DataPtr memory) noexcept : memory_(std::move(memory)) {}

  const void* data() const noexcept { return memory_.get(); }
  c10::DataPtr& memory() noexcept { return memory_; }

 private:
  c10::DataPtr memory_;
};
using LoanPtr = base::RefPtr<Loan>;

// Lends a storage's memory, copy-on-write. Null where PyTorch cannot tell when the storage is
// written: memory of NumPy, of other processes, of another library or pinned. On an accelerator
// "as it is" means in the order of its streams.
LoanPtr lend(c10::StorageImpl& storage);

// Tells the allocator of an accelerator's memory that the stream uses what the storage lends: by
// its own data pointer, which the allocator would not know. Nothing for other storages, and without
// a materializer (shared_storage.h).
void record_lent_memory(c10::StorageImpl& storage, const c10::Stream& stream);

}  // namespace torch_pjrt::aten
