#include "base/blocking_region.h"

#include <gtest/gtest.h>

namespace torch_pjrt::base {
namespace {

// Plays a lock that the thread holds at most once, as the bindings do with the GIL.
struct Lock {
  bool held = true;
  int releases = 0;
} lock;

const BlockingHooks kHooks{[]() noexcept -> void* {
                             if (!lock.held) return nullptr;
                             lock.held = false;
                             ++lock.releases;
                             return &lock;
                           },
                           [](void* token) noexcept { static_cast<Lock*>(token)->held = true; }};

class BlockingRegionHooks : public testing::Test {
 protected:
  void SetUp() override {
    lock = Lock();
    set_blocking_hooks(&kHooks);
  }
  void TearDown() override { set_blocking_hooks(nullptr); }
};

TEST_F(BlockingRegionHooks, ReleaseAndTakeAroundTheRegion) {
  {
    BlockingRegion region;
    EXPECT_FALSE(lock.held);
  }
  EXPECT_TRUE(lock.held);
}

TEST_F(BlockingRegionHooks, OnlyTheOutermostRegionActs) {
  {
    BlockingRegion outer;
    {
      BlockingRegion inner;
    }
    EXPECT_FALSE(lock.held);
  }
  EXPECT_TRUE(lock.held);
  EXPECT_EQ(lock.releases, 1);
}

TEST_F(BlockingRegionHooks, ARegionKeepsTheHooksItBeganWith) {
  {
    BlockingRegion region;
    set_blocking_hooks(nullptr);
  }
  EXPECT_TRUE(lock.held);
}

TEST(BlockingRegion, WithoutHooksDoesNothing) {
  lock = Lock();
  {
    BlockingRegion region;
  }
  EXPECT_EQ(lock.releases, 0);
}

}  // namespace
}  // namespace torch_pjrt::base
