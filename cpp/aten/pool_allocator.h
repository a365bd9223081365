#pragma once

#include <c10/core/Allocator.h>

#include "transfer/host_memory_pool.h"

namespace torch_pjrt::aten {

// The allocator of cpu storages that began as an alias of device memory: their own memory, once
// they are written or resized, is a block of the pool. Its `copy_data` copies in parallel.
c10::Allocator& pool_allocator() noexcept;

// The block of a DataPtr that the allocator made, or null.
transfer::HostBlock* pool_block_of(const c10::DataPtr& data) noexcept;

}  // namespace torch_pjrt::aten
