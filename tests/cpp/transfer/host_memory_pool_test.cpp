#include "transfer/host_memory_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace torch_pjrt::transfer {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

uintptr_t address(const HostBlock& block) { return reinterpret_cast<uintptr_t>(block.data()); }

TEST(HostMemoryPool, GivesAlignedBlocksOfEverySize) {
  HostMemoryPool pool(64 * kMiB);
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{4097},
                       kMiB, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB, 33 * kMiB}) {
    HostBlock block = pool.allocate(bytes);
    ASSERT_TRUE(block) << bytes;
    EXPECT_EQ(block.size(), bytes);
    EXPECT_GE(block.capacity(), bytes);
    EXPECT_EQ(address(block) % 64, 0u) << bytes;
    if (block.capacity() >= HostMemoryPool::kHugePage) {
      EXPECT_EQ(address(block) % HostMemoryPool::kHugePage, 0u) << bytes;
    }
    std::memset(block.data(), 1, block.capacity());
  }
  EXPECT_EQ(pool.stats().bytes_in_use, 0u);
}

TEST(HostMemoryPool, WastesAtMostAQuarterOrAHugePage) {
  HostMemoryPool pool(0);
  for (size_t bytes = 256; bytes < 64 * kMiB; bytes += 1 + bytes / 7) {
    const size_t capacity = pool.allocate(bytes).capacity();
    EXPECT_LE(capacity, std::max(bytes + bytes / 4 + 64, bytes + HostMemoryPool::kHugePage))
        << bytes;
  }
}

TEST(HostMemoryPool, UsesABlockAgain) {
  HostMemoryPool pool(64 * kMiB);
  for (size_t bytes : {size_t{1000}, 4 * kMiB}) {
    HostBlock block = pool.allocate(bytes);
    const uintptr_t first = address(block);
    HostBlock moved = std::move(block);
    EXPECT_FALSE(block);
    moved = {};
    EXPECT_EQ(address(pool.allocate(bytes - 1)), first);
  }
  const auto stats = pool.stats();
  EXPECT_EQ(stats.allocations, 4u);
  EXPECT_EQ(stats.reused, 2u);
}

TEST(HostMemoryPool, KeepsItsFigures) {
  HostMemoryPool pool(64 * kMiB);
  {
    HostBlock a = pool.allocate(4 * kMiB), b = pool.allocate(8 * kMiB);
    EXPECT_EQ(pool.stats().bytes_in_use, 12 * kMiB);
    EXPECT_EQ(pool.stats().bytes_cached, 0u);
  }
  EXPECT_EQ(pool.stats().bytes_in_use, 0u);
  EXPECT_EQ(pool.stats().bytes_cached, 12 * kMiB);
  EXPECT_EQ(pool.stats().peak_bytes_in_use, 12 * kMiB);
  EXPECT_EQ(pool.trim(4 * kMiB), 8 * kMiB);
  EXPECT_EQ(pool.stats().bytes_cached, 4 * kMiB);
  EXPECT_EQ(pool.trim(), 4 * kMiB);
  EXPECT_EQ(pool.trim(), 0u);
}

TEST(HostMemoryPool, KeepsNoMoreThanItsLimit) {
  HostMemoryPool pool(10 * kMiB);
  {
    HostBlock a = pool.allocate(8 * kMiB), b = pool.allocate(8 * kMiB);
  }
  EXPECT_EQ(pool.stats().bytes_cached, 8 * kMiB);
  pool.set_limit(kMiB);
  EXPECT_EQ(pool.stats().bytes_cached, 0u);
}

TEST(HostMemoryPool, ThrowsBadAllocAndStaysRight) {
  HostMemoryPool pool(kMiB);
  EXPECT_THROW(pool.allocate(size_t{1} << 62), std::bad_alloc);
  EXPECT_THROW(pool.allocate(size_t{1} << 49), std::bad_alloc);
  EXPECT_EQ(pool.stats().bytes_in_use, 0u);
  EXPECT_TRUE(pool.allocate(1));
}

TEST(HostMemoryPool, ServesManyThreads) {
  HostMemoryPool pool(8 * kMiB);
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<HostBlock, char>> held;
      for (int i = 0; i < 3000; ++i) {
        if (held.size() > 8 || (random() % 2 && !held.empty())) {
          std::swap(held[random() % held.size()], held.back());
          auto& [block, mark] = held.back();
          const char* bytes = static_cast<const char*>(block.data());
          if (bytes[0] != mark || bytes[block.size() - 1] != mark) ++damaged;
          held.pop_back();
        } else {
          const char mark = static_cast<char>(random());
          HostBlock block = pool.allocate(1 + random() % (random() % 50 == 0 ? 3000000 : 5000));
          static_cast<char*>(block.data())[0] = mark;
          static_cast<char*>(block.data())[block.size() - 1] = mark;
          held.emplace_back(std::move(block), mark);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(pool.stats().bytes_in_use, 0u);
  EXPECT_LE(pool.stats().bytes_cached, 8 * kMiB);
}

TEST(HostMemoryPool, WorksInAForkedChildWhileThreadsUseIt) {
  HostMemoryPool::shared();
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) HostMemoryPool::shared().allocate(512);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a lock that stayed taken ends the child here
      HostBlock block = HostMemoryPool::shared().allocate(512);
      _exit(block ? 7 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  }
  stop = true;
  busy.join();
}

// Remembers what it was asked to map.
struct RecordedMapping final : MemoryMapping {
  bool map(void* data, size_t bytes) noexcept override {
    if (refuses) return false;
    mapped.emplace(data, bytes);
    return true;
  }
  void unmap(void* data) noexcept override { EXPECT_EQ(mapped.erase(data), 1u); }
  std::map<void*, size_t> mapped;
  bool refuses = false;
};

TEST(HostMemoryPool, MapsLargeBlocksOnceAndUnmapsThemBeforeTheyGo) {
  auto mapping = std::make_shared<RecordedMapping>();
  HostMemoryPool pool(size_t{64} << 20);
  pool.allocate(4 << 20);  // waits, unmapped, and goes when the mapping comes
  pool.set_mapping(mapping);
  EXPECT_EQ(pool.stats().bytes_cached, 0u);
  void* first = nullptr;
  {
    const HostBlock large = pool.allocate(4 << 20), small = pool.allocate(4000);
    first = large.data();
    EXPECT_EQ(mapping->mapped.size(), 1u);
    EXPECT_EQ(mapping->mapped.at(first), large.capacity());
    EXPECT_EQ(pool.stats().bytes_mapped, large.capacity());
  }
  EXPECT_EQ(pool.allocate(4 << 20).data(), first);  // used again, still mapped
  EXPECT_EQ(mapping->mapped.size(), 1u);
  mapping->refuses = true;
  const HostBlock other = pool.allocate(16 << 20);
  EXPECT_EQ(mapping->mapped.size(), 1u);
  pool.set_mapping(nullptr);
  EXPECT_TRUE(mapping->mapped.empty());
  EXPECT_EQ(pool.stats().bytes_mapped, 0u);
}

}  // namespace
}  // namespace torch_pjrt::transfer
