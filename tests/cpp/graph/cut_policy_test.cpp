#include "graph/cut_policy.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace torch_pjrt::graph {
namespace {

constexpr size_t kLimit = 10000;

using Loop = std::function<uint64_t(size_t)>;  // the identity of the i-th operator

// The program of a segment is settled by where in the loop it begins and how long it is.
std::set<std::pair<size_t, size_t>> programs(CutPolicy& policy, const Loop& loop, size_t period,
                                             size_t count) {
  std::set<std::pair<size_t, size_t>> different;
  size_t start = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!policy.note(loop(i))) continue;
    EXPECT_LE(i + 1 - start, 2 * policy.limit());
    different.insert({start % period, i + 1 - start});
    start = i + 1;
    policy.executed();
  }
  return different;
}

TEST(CutPolicy, CutsALoopAtTheSamePlace) {
  for (size_t period : {1, 7, 700, 701, 3999}) {
    CutPolicy policy(kLimit);
    const auto loop = [=](size_t i) { return 1000 + i % period; };
    EXPECT_LE(programs(policy, loop, period, 100 * kLimit).size(), 3u) << period;
  }
}

TEST(CutPolicy, IsNotMisledByRepetitionInsideTheLoop) {
  // 690 equal operators and 10 others; 12 equal layers of 50 and a head of 100.
  CutPolicy a(kLimit), b(kLimit);
  const auto tail = [](size_t i) { return i % 700 < 690 ? 5 : i % 700; };
  EXPECT_LE(programs(a, tail, 700, 100 * kLimit).size(), 3u);
  const auto layers = [](size_t i) { return i % 700 < 600 ? i % 700 % 50 : i % 700; };
  EXPECT_LE(programs(b, layers, 700, 100 * kLimit).size(), 3u);
}

TEST(CutPolicy, FindsTheLoopAfterAPreparation) {
  for (size_t before : {3000, 9000, 25000}) {
    CutPolicy policy(kLimit);
    size_t cuts = 0;
    for (size_t i = 0; i < before; ++i) {
      if (policy.note(i * 7919)) policy.executed(), ++cuts;
    }
    const auto loop = [=](size_t i) { return 5 + i % 700; };
    // One that holds the end of the preparation, one cut by force, and the loop's own.
    EXPECT_LE(programs(policy, loop, 700, 100 * kLimit).size(), 3u) << before;
    EXPECT_LE(cuts, before / kLimit);
  }
}

TEST(CutPolicy, CutsAtTwiceTheLimitWithoutALoop) {
  CutPolicy policy(100);
  size_t since = 0, longest = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    longest = std::max(longest, ++since);
    if (policy.note(i * i + 1)) policy.executed(), since = 0;
  }
  EXPECT_LE(longest, 200u);
}

TEST(CutPolicy, DoesNotCutWhatIsReadBeforeTheLimit) {
  CutPolicy policy(100);
  for (size_t i = 0; i < 5000; ++i) {
    EXPECT_FALSE(policy.note(i % 7));
    if (i % 99 == 98) policy.executed();
  }
}

TEST(CutPolicy, TakesAnotherLimit) {
  CutPolicy policy(100);
  policy.set_limit(3);
  EXPECT_FALSE(policy.note(1));
  EXPECT_FALSE(policy.note(1));
  EXPECT_TRUE(policy.note(1));
}

}  // namespace
}  // namespace torch_pjrt::graph
