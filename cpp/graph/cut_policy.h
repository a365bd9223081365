#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace torch_pjrt::graph {

// Decides where to execute a graph that grows without ever being read.
//
// Cutting a loop after a fixed number of operators would cut it at another place each time, and
// compile another program each time. So the policy only arms at the limit, and cuts when the last
// `kWindow` operators are the same as they were at an earlier cut: the same place of the loop.
// Without such a repeat it cuts at twice the limit.
class CutPolicy {
 public:
  explicit CutPolicy(size_t limit) noexcept : limit_(limit) {}

  // Notes one recorded operator by its structural identity. True: execute now.
  bool note(uint64_t operator_identity) noexcept;

  // Notes that the pending graph was executed.
  void executed() noexcept { recorded_ = 0; }

  size_t limit() const noexcept { return limit_; }
  void set_limit(size_t limit) noexcept { limit_ = limit; }

 private:
  static constexpr size_t kWindow = 256;
  static constexpr uint64_t kBase = 0x9e3779b97f4a7c15ull;

  size_t limit_;
  size_t recorded_ = 0;
  std::array<uint64_t, kWindow> recent_{};
  size_t position_ = 0;
  uint64_t rolling_ = 0;  // sum of recent identities, each times a power of kBase
  uint64_t mark_ = 0;     // `rolling_` at the last cut
};

}  // namespace torch_pjrt::graph
