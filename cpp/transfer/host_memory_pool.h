#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/metrics.h"

namespace torch_pjrt::transfer {

class HostMemoryPool;

// A block of pool memory; gives it back when destroyed. Empty when default-made or moved from.
class HostBlock {
 public:
  HostBlock() noexcept = default;
  HostBlock(HostBlock&& other) noexcept { swap(other); }
  HostBlock& operator=(HostBlock&& other) noexcept {
    HostBlock(std::move(other)).swap(*this);
    return *this;
  }
  ~HostBlock();

  void* data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }          // bytes asked for
  size_t capacity() const noexcept { return capacity_; }  // bytes there are
  explicit operator bool() const noexcept { return data_ != nullptr; }

  // Gives the block back now if that takes no more than a leaf lock, and empties it; false if its
  // memory would have to go back to the system, which takes long. For callbacks.
  bool recycle() noexcept;

  void swap(HostBlock& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(pool_, other.pool_);
  }

 private:
  friend class HostMemoryPool;
  HostBlock(HostMemoryPool* pool, void* data, size_t size, size_t capacity) noexcept
      : data_(data), size_(size), capacity_(capacity), pool_(pool) {}

  void* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  HostMemoryPool* pool_ = nullptr;
};

// What a device's driver does with host memory that it is to read directly.
class MemoryMapping {
 public:
  virtual ~MemoryMapping() = default;
  virtual bool map(void* data, size_t bytes) noexcept = 0;  // false: not done, and not undone later
  virtual void unmap(void* data) noexcept = 0;
};

// Host memory that is kept warm: given back blocks are used again, so that a transfer does not
// pay for page faults. Blocks are aligned to 64 bytes; from 2 MiB on to 2 MiB, on huge pages
// where the system gives them. Sizes are rounded up to one of four classes a doubling.
// All functions are safe on any thread; they take one leaf lock.
class HostMemoryPool {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kHugePage = size_t{2} << 20;

  // The pool that the transfers use; never destroyed. Its limit is an eighth of the memory of the
  // machine, or TORCH_PJRT_POOL_LIMIT bytes. Its figures are the gauges pool.bytes_in_use,
  // pool.bytes_cached, pool.peak_bytes_in_use, pool.allocations and pool.reused.
  static HostMemoryPool& shared();

  // `limit`: bytes that may wait for reuse; a block that would exceed it goes back to the system.
  explicit HostMemoryPool(size_t limit) noexcept : limit_(limit) {}
  HostMemoryPool(const HostMemoryPool&) = delete;
  HostMemoryPool& operator=(const HostMemoryPool&) = delete;
  // Every block must have come back.
  ~HostMemoryPool();

  // A block of at least `bytes` (0 too gives a valid pointer), its content undefined.
  // Throws std::bad_alloc, after it has given back all that waited.
  HostBlock allocate(size_t bytes);

  // Gives waiting memory back to the system, biggest blocks first, until at most `keep` bytes
  // wait. Returns the bytes given back.
  size_t trim(size_t keep = 0) noexcept;
  void set_limit(size_t limit) noexcept;

  // Maps each block of kHugePage and more that comes from the system from now on, and unmaps it
  // before it goes back; null: no more. Gives back all that waits, so that it is mapped next time.
  void set_mapping(std::shared_ptr<MemoryMapping> mapping);

  struct Stats {
    size_t bytes_in_use = 0;
    size_t bytes_cached = 0;
    size_t bytes_mapped = 0;
    size_t peak_bytes_in_use = 0;
    uint64_t allocations = 0;  // calls of allocate
    uint64_t reused = 0;       // of these, served without the system
  };
  Stats stats() const noexcept;

 private:
  friend class HostBlock;
  friend struct ForkGuard;
  struct Free {
    Free* next;
  };
  static constexpr size_t kClasses = 192;

  struct Gauges {
    base::Counter &bytes_in_use, &bytes_cached, &peak_bytes_in_use, &bytes_mapped, &allocations,
        &reused;
  };

  void* take_from_system(size_t capacity) noexcept;
  void return_to_system(void* data, size_t capacity) noexcept;
  bool keep(void* data, size_t capacity) noexcept;
  void give_back(void* data, size_t capacity) noexcept;
  void publish() noexcept;  // with the lock held

  mutable std::mutex mutex_;
  std::array<Free*, kClasses> free_{};
  size_t limit_;
  Stats stats_;
  std::shared_ptr<MemoryMapping> mapping_;
  std::unordered_map<void*, std::shared_ptr<MemoryMapping>> mapped_;  // by whom
  const Gauges* gauges_ = nullptr;                                    // of the shared pool only
};

}  // namespace torch_pjrt::transfer
