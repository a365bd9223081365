#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include "graph/cell.h"

namespace torch_pjrt::aten {

// The allocator of xla storages. What it allocates is no memory but a Cell: the address is unique
// among live storages and lies in a range that nothing can read or write, so that an illegal host
// access faults instead of finding rubbish.
c10::Allocator& cell_allocator() noexcept;

// A storage of `bytes` whose cell belongs to `executor`, empty (undefined contents).
c10::Storage make_storage(graph::Executor& executor, size_t bytes);

// The cell of an xla storage. Throws for any other storage.
graph::Cell& cell_of(const c10::StorageImpl& storage);

// Makes an xla storage longer. It keeps its cell, which is resized when it is next read, and gets
// another address.
void grow_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace torch_pjrt::aten
