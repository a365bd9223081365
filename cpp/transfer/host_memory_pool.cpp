#include "transfer/host_memory_pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>

#include "base/environment.h"

namespace torch_pjrt::transfer {
namespace {

constexpr int kSmallestLog = 8;  // 256 bytes
constexpr int kBiggestLog = 50;

struct SizeClass {
  size_t index;
  size_t capacity;
};

// Four classes a doubling: 256, 320, 384, 448, 512, 640, ... bytes; huge blocks are rounded up to
// whole huge pages within their class.
SizeClass size_class(size_t bytes) {
  bytes = std::max<size_t>(bytes, size_t{1} << kSmallestLog);
  const int log = std::bit_width(bytes - 1) - 1;  // 2^log < bytes <= 2^(log + 1), or log = 7
  if (log < kSmallestLog) return {0, size_t{1} << kSmallestLog};
  if (log > kBiggestLog) throw std::bad_alloc();
  const size_t step = size_t{1} << (log - 2);
  const size_t quarters = (bytes - (size_t{1} << log) + step - 1) / step;  // 1 to 4
  size_t capacity = (size_t{1} << log) + quarters * step;
  size_t index = size_t(log - kSmallestLog) * 4 + quarters;
  if (capacity >= HostMemoryPool::kHugePage && capacity % HostMemoryPool::kHugePage) {
    capacity += HostMemoryPool::kHugePage - capacity % HostMemoryPool::kHugePage;
    return size_class(capacity);  // blocks of one class must all have one capacity
  }
  return {index, capacity};
}

size_t capacity_of_class(size_t index) {
  if (index == 0) return size_t{1} << kSmallestLog;
  const size_t log = kSmallestLog + (index - 1) / 4, quarters = (index - 1) % 4 + 1;
  return (size_t{1} << log) + quarters * (size_t{1} << (log - 2));
}

void* system_allocate(size_t capacity) noexcept {
  if (capacity < HostMemoryPool::kHugePage) {
    return std::aligned_alloc(HostMemoryPool::kAlignment, capacity);
  }
  // Map one huge page more than needed and cut both ends off, which gives the alignment.
  const size_t span = capacity + HostMemoryPool::kHugePage;
  void* const mapped =
      mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t start =
      (address + HostMemoryPool::kHugePage - 1) & ~(HostMemoryPool::kHugePage - 1);
  if (start > address) munmap(mapped, start - address);
  const size_t tail = address + span - (start + capacity);
  if (tail) munmap(reinterpret_cast<void*>(start + capacity), tail);
  void* const data = reinterpret_cast<void*>(start);
  madvise(data, capacity, MADV_HUGEPAGE);  // a wish; small pages are right too
  return data;
}

void system_free(void* data, size_t capacity) noexcept {
  if (capacity < HostMemoryPool::kHugePage) {
    std::free(data);
  } else {
    munmap(data, capacity);
  }
}

size_t default_limit() {
  if (const auto limit = base::environment_number("TORCH_PJRT_POOL_LIMIT", 0, SIZE_MAX)) {
    return *limit;
  }
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return size_t{1} << 30;
  return size_t(pages) * size_t(page) / 8;
}

}  // namespace

// A child that is forked while another thread holds the lock could never take it.
struct ForkGuard {
  static void lock() { HostMemoryPool::shared().mutex_.lock(); }
  static void unlock() { HostMemoryPool::shared().mutex_.unlock(); }
};

HostBlock::~HostBlock() {
  if (pool_) pool_->give_back(data_, capacity_);
}

bool HostBlock::recycle() noexcept {
  if (!pool_ || !pool_->keep(data_, capacity_)) return false;
  data_ = nullptr;
  size_ = capacity_ = 0;
  pool_ = nullptr;
  return true;
}

HostMemoryPool& HostMemoryPool::shared() {
  static HostMemoryPool* const pool = [] {
    auto* made = new HostMemoryPool(default_limit());
    using base::gauge;
    made->gauges_ = new Gauges{gauge("pool.bytes_in_use"),      gauge("pool.bytes_cached"),
                               gauge("pool.peak_bytes_in_use"), gauge("pool.bytes_mapped"),
                               gauge("pool.allocations"),       gauge("pool.reused")};
    pthread_atfork(ForkGuard::lock, ForkGuard::unlock, ForkGuard::unlock);
    return made;
  }();
  return *pool;
}

HostMemoryPool::~HostMemoryPool() { trim(0); }

HostBlock HostMemoryPool::allocate(size_t bytes) {
  const auto [index, capacity] = size_class(bytes);
  {
    std::lock_guard lock(mutex_);
    ++stats_.allocations;
    stats_.bytes_in_use += capacity;
    stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
    if (Free* const block = free_[index]) {
      free_[index] = block->next;
      stats_.bytes_cached -= capacity;
      ++stats_.reused;
      publish();
      return HostBlock(this, block, bytes, capacity);
    }
    publish();
  }
  void* data = take_from_system(capacity);
  if (!data) {
    trim(0);
    data = take_from_system(capacity);
  }
  if (!data) {
    std::lock_guard lock(mutex_);
    stats_.bytes_in_use -= capacity;
    publish();
    throw std::bad_alloc();
  }
  return HostBlock(this, data, bytes, capacity);
}

void* HostMemoryPool::take_from_system(size_t capacity) noexcept {
  void* const data = system_allocate(capacity);
  if (!data || capacity < kHugePage) return data;
  std::shared_ptr<MemoryMapping> mapping;
  {
    std::lock_guard lock(mutex_);
    mapping = mapping_;
  }
  if (!mapping || !mapping->map(data, capacity)) return data;
  std::lock_guard lock(mutex_);
  try {
    mapped_.emplace(data, std::move(mapping));
    stats_.bytes_mapped += capacity;
  } catch (const std::bad_alloc&) {
    mapping->unmap(data);
  }
  publish();
  return data;
}

void HostMemoryPool::return_to_system(void* data, size_t capacity) noexcept {
  std::shared_ptr<MemoryMapping> mapping;
  {
    std::lock_guard lock(mutex_);
    if (auto found = mapped_.extract(data)) {
      mapping = std::move(found.mapped());
      stats_.bytes_mapped -= capacity;
      publish();
    }
  }
  if (mapping) mapping->unmap(data);
  system_free(data, capacity);
}

void HostMemoryPool::set_mapping(std::shared_ptr<MemoryMapping> mapping) {
  {
    std::lock_guard lock(mutex_);
    mapping_.swap(mapping);
  }
  trim(0);
}

bool HostMemoryPool::keep(void* data, size_t capacity) noexcept {
  std::lock_guard lock(mutex_);
  if (stats_.bytes_cached + capacity > limit_) return false;
  Free*& first = free_[size_class(capacity).index];
  first = new (data) Free{first};
  stats_.bytes_in_use -= capacity;
  stats_.bytes_cached += capacity;
  publish();
  return true;
}

void HostMemoryPool::give_back(void* data, size_t capacity) noexcept {
  if (keep(data, capacity)) return;
  return_to_system(data, capacity);
  std::lock_guard lock(mutex_);
  stats_.bytes_in_use -= capacity;
  publish();
}

size_t HostMemoryPool::trim(size_t keep) noexcept {
  // Unlinked under the lock, freed without it: unmapping takes long.
  struct Unlinked {
    Unlinked* next;
    size_t capacity;
  };
  Unlinked* unlinked = nullptr;
  size_t freed = 0;
  {
    std::lock_guard lock(mutex_);
    for (size_t i = kClasses; i-- > 0 && stats_.bytes_cached > keep;) {
      while (free_[i] && stats_.bytes_cached > keep) {
        Free* const block = free_[i];
        free_[i] = block->next;
        const size_t capacity = capacity_of_class(i);
        unlinked = new (block) Unlinked{unlinked, capacity};
        stats_.bytes_cached -= capacity;
        freed += capacity;
      }
    }
    publish();
  }
  while (unlinked) {
    Unlinked* const next = unlinked->next;
    return_to_system(unlinked, unlinked->capacity);
    unlinked = next;
  }
  return freed;
}

void HostMemoryPool::set_limit(size_t limit) noexcept {
  {
    std::lock_guard lock(mutex_);
    limit_ = limit;
  }
  trim(limit);
}

void HostMemoryPool::publish() noexcept {
  if (!gauges_) return;
  gauges_->bytes_in_use.set(static_cast<int64_t>(stats_.bytes_in_use));
  gauges_->bytes_cached.set(static_cast<int64_t>(stats_.bytes_cached));
  gauges_->bytes_mapped.set(static_cast<int64_t>(stats_.bytes_mapped));
  gauges_->peak_bytes_in_use.set(static_cast<int64_t>(stats_.peak_bytes_in_use));
  gauges_->allocations.set(static_cast<int64_t>(stats_.allocations));
  gauges_->reused.set(static_cast<int64_t>(stats_.reused));
}

HostMemoryPool::Stats HostMemoryPool::stats() const noexcept {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace torch_pjrt::transfer
