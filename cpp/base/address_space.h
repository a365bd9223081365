#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

namespace torch_pjrt::base {

// Addresses that name things and have no memory behind them: what is read or written there faults.
// An address is unique among those that are taken, and so are the bytes behind it. One that was
// given back is used again only after the whole space has been handed out once, so that a stale
// address is hardly ever taken for a new one.
//
// The space is cut into chunks, and a chunk is used again when nothing in it is taken any more. All
// functions may be called from any thread.
class AddressSpace {
 public:
  // Reserves `bytes`, a multiple of `chunk`, which is a multiple of 64. Throws std::bad_alloc where
  // the system refuses. The space is never freed: meant for the life of the process.
  AddressSpace(size_t bytes, size_t chunk);
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // `bytes` addresses (for 0 too, one of its own), aligned to 64. Throws std::bad_alloc when there
  // are no chunks left that are free and beside each other.
  void* take(size_t bytes);
  // `bytes`: as taken.
  void give_back(void* address, size_t bytes) noexcept;

 private:
  size_t find_free(size_t count) const;

  const size_t chunk_;
  const size_t chunk_count_;
  char* const start_;
  // What is taken of each chunk; the open one counts as taken by itself. Raised under the mutex.
  const std::unique_ptr<std::atomic<unsigned>[]> taken_;

  std::mutex mutex_;
  size_t open_ = 0;  // the chunk that small things come from
  size_t used_ = 0;  // bytes of it
  size_t next_ = 1;  // where the search for the next free chunk begins
};

}  // namespace torch_pjrt::base
