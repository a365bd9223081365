#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <mutex>

#include "graph/executor.h"
#include "graph/shared_buffer.h"

// How PyTorch tells that a storage is about to be written: by StorageImpl::set_materializer, or,
// before 2.13, only for its own copy-on-write contexts. (TORCH_PJRT_STOCK_COW tries the latter on a
// PyTorch that has the former.)
#if __has_include(<c10/core/StorageMaterializer.h>) && !defined(TORCH_PJRT_STOCK_COW)
#define TORCH_PJRT_HAS_MATERIALIZER 1
#else
#define TORCH_PJRT_HAS_MATERIALIZER 0
#endif

namespace torch_pjrt::aten {

// A storage of `bytes` whose memory, `data`, is a part of a device buffer's, on `device`: the cpu,
// or the executor's companion (accelerators.h). It keeps the buffer alive by a reference and the
// memory in place by PJRT's external reference, until the storage is destroyed, resized or written,
// and, on an accelerator, what its streams have to do with the memory by then is done.
//
// The first access that may write (PyTorch's, NumPy's, a data_ptr()) copies the bytes to memory of
// its own, so that the device's array stays as it is; counted as export.materialised. Where nothing
// else can read the buffer any more the storage keeps the memory and is written in place; counted
// as export.written_in_place (with a materializer only; without, the memory also stays until the
// storage is destroyed). Both may happen on any thread, with or without the GIL.
//
// Unprotected, the storage does not know of its first write, so that whoever asks for a pointer
// that may write, and reads, causes no copy: for those who promise that nobody writes. (Without a
// materializer it is protected all the same.)
c10::Storage share_buffer(graph::SharedBufferPtr buffer, graph::Executor& executor, void* data,
                          size_t bytes, c10::Device device, bool is_protected = true);

// Makes an unprotected storage copy-on-write; leaves others as they are.
void protect(c10::StorageImpl& storage) noexcept;

// The buffer that a storage shares copy-on-write; null for any other storage. The storage then
// still shows the buffer's own bytes.
const graph::SharedBufferPtr* shared_buffer_of(const c10::StorageImpl& storage) noexcept;

// Whether a storage has a former device buffer's memory for itself, to write it in place.
bool has_taken_over(const c10::StorageImpl& storage) noexcept;

// The lock under which a storage changes from shared to own memory: threads of one kernel may ask
// for the same storage at once. A leaf lock; the GIL is not waited for under it.
std::mutex& mutex_of(const c10::StorageImpl& storage) noexcept;

}  // namespace torch_pjrt::aten
