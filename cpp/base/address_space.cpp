#include "base/address_space.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace torch_pjrt::base {
namespace {

constexpr size_t kGranule = 64;

// One byte more, so that an end is no other thing's beginning.
size_t rounded(size_t bytes) noexcept { return (bytes / kGranule + 1) * kGranule; }

char* reserve(size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(memory);
}

}  // namespace

AddressSpace::AddressSpace(size_t bytes, size_t chunk)
    : chunk_(chunk),
      chunk_count_(bytes / chunk),
      start_(reserve(bytes)),
      taken_(new std::atomic<unsigned>[chunk_count_]()) {
  taken_[open_] = 1;
}

// The first of `count` free chunks that lie beside each other, from next_ on and round once.
size_t AddressSpace::find_free(size_t count) const {
  size_t run = 0;
  for (size_t step = 0, at = next_; step < chunk_count_ + count; ++step, ++at) {
    if (at >= chunk_count_) at = run = 0;
    run = taken_[at].load(std::memory_order_acquire) == 0 ? run + 1 : 0;
    if (run == count) return at + 1 - count;
  }
  throw std::bad_alloc();
}

void* AddressSpace::take(size_t bytes) {
  if (bytes >= chunk_ * chunk_count_) throw std::bad_alloc();
  const size_t need = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (need <= chunk_ - used_) [[likely]] {
    char* const address = start_ + open_ * chunk_ + used_;
    used_ += need;
    taken_[open_].fetch_add(1, std::memory_order_relaxed);
    return address;
  }
  const size_t count = (need + chunk_ - 1) / chunk_;
  const size_t first = find_free(count);
  for (size_t i = first; i < first + count; ++i) {
    taken_[i].fetch_add(1, std::memory_order_relaxed);
  }
  next_ = first + count;
  if (count == 1) {
    taken_[first].fetch_add(1, std::memory_order_relaxed);
    taken_[open_].fetch_sub(1, std::memory_order_relaxed);
    open_ = first;
    used_ = need;
  }
  return start_ + first * chunk_;
}

void AddressSpace::give_back(void* address, size_t bytes) noexcept {
  const auto offset = static_cast<size_t>(static_cast<char*>(address) - start_);
  const size_t last = (offset + rounded(bytes) - 1) / chunk_;
  for (size_t i = offset / chunk_; i <= last; ++i) {
    taken_[i].fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace torch_pjrt::base
