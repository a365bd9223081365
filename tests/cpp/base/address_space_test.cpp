#include "base/address_space.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace torch_pjrt::base {
namespace {

constexpr size_t kChunk = 1024;
constexpr size_t kBytes = 64 * kChunk;

uintptr_t number(void* address) { return reinterpret_cast<uintptr_t>(address); }

TEST(AddressSpace, GivesEvenNothingAnAddressOfItsOwn) {
  AddressSpace space(kBytes, kChunk);
  void* const a = space.take(0);
  void* const b = space.take(0);
  void* const c = space.take(64);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  EXPECT_NE(number(c) + 64, number(space.take(1))) << "an end is no other's beginning";
  EXPECT_EQ(number(b) % 64, 0u);
}

TEST(AddressSpace, NeverOverlapsWhatIsTakenHoweverOftenItGoesRound) {
  AddressSpace space(4 * kBytes, kChunk);
  std::map<uintptr_t, size_t> taken;
  std::mt19937 random(3);
  size_t handed_out = 0;
  while (handed_out < 100 * kBytes) {
    if (taken.size() > 20 || (!taken.empty() && random() % 2)) {
      const auto one = std::next(taken.begin(), static_cast<long>(random() % taken.size()));
      space.give_back(reinterpret_cast<void*>(one->first), one->second);
      taken.erase(one);
      continue;
    }
    const size_t bytes = random() % 8 ? random() % 300 : random() % (5 * kChunk);
    void* const address = space.take(bytes);  // 21 things in 256 chunks leave room enough
    handed_out += bytes + 1;
    const auto behind = taken.upper_bound(number(address));
    if (behind != taken.end()) {
      EXPECT_LT(number(address) + bytes, behind->first);
    }
    if (behind != taken.begin()) {
      const auto before = std::prev(behind);
      EXPECT_LT(before->first + before->second, number(address));
    }
    taken.emplace(number(address), bytes);
  }
}

TEST(AddressSpace, SaysWhenItIsFullAndGoesOnWhenSomethingIsGivenBack) {
  AddressSpace space(kBytes, kChunk);
  EXPECT_THROW(space.take(kBytes), std::bad_alloc);
  EXPECT_THROW(space.take(SIZE_MAX), std::bad_alloc);
  std::vector<void*> taken;
  EXPECT_THROW(for (;;) taken.push_back(space.take(kChunk - 1)), std::bad_alloc);
  EXPECT_EQ(taken.size(), kBytes / kChunk);
  space.give_back(taken[5], kChunk - 1);
  EXPECT_EQ(space.take(kChunk - 1), taken[5]);
  EXPECT_THROW(space.take(kChunk - 1), std::bad_alloc);
}

TEST(AddressSpace, ServesSeveralThreads) {
  AddressSpace space(kBytes, kChunk);
  std::vector<std::thread> threads;
  std::atomic<int> faults{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        void* const a = space.take(100);
        void* const b = space.take(200);
        if (a == b) ++faults;
        space.give_back(a, 100);
        space.give_back(b, 200);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, 0);
  EXPECT_NO_THROW(space.take(kBytes / 2)) << "all was given back";
}

}  // namespace
}  // namespace torch_pjrt::base
