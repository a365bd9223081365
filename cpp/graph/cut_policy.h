#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_pjrt::graph {

// Decides where to execute a graph that grows without ever being read.
//
// Cutting a loop after a fixed number of operators would cut it at another place each time, and
// compile another program each time. So the policy only arms at the limit, and cuts when the last
// operators are the same as they were at the last cut: the same place of the loop. It compares half
// the limit of them (up to kMostWindow), so that a loop may repeat itself inside. Without such a
// repeat it cuts at twice the limit.
class CutPolicy {
 public:
  explicit CutPolicy(size_t limit) { set_limit(limit); }

  // Notes one recorded operator by its structural identity. True: execute now.
  bool note(uint64_t operator_identity) noexcept;

  // Notes that the pending graph was executed.
  void executed() noexcept { recorded_ = 0; }

  size_t limit() const noexcept { return limit_; }
  // Another limit than before forgets what was noted.
  void set_limit(size_t limit);

 private:
  static constexpr size_t kMostWindow = 4096;
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15ull;

  size_t limit_ = 0;
  size_t recorded_ = 0;
  std::vector<uint64_t> recent_;  // a ring
  size_t position_ = 0;
  uint64_t oldest_power_ = 0;  // kBase to the power of the ring's size
  uint64_t rolling_ = 0;       // sum of recent identities, each times a power of kBase
  uint64_t mark_ = 0;          // `rolling_` at the last cut
};

}  // namespace torch_pjrt::graph
