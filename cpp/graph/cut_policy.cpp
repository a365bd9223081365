#include "graph/cut_policy.h"

namespace torch_pjrt::graph {
namespace {

constexpr uint64_t power(uint64_t base, size_t exponent) {
  uint64_t result = 1;
  for (size_t i = 0; i < exponent; ++i) result *= base;
  return result;
}

}  // namespace

bool CutPolicy::note(uint64_t operator_identity) noexcept {
  constexpr uint64_t kOldest = power(kBase, kWindow);
  rolling_ = rolling_ * kBase + operator_identity - recent_[position_] * kOldest;
  recent_[position_] = operator_identity;
  position_ = (position_ + 1) % kWindow;
  if (++recorded_ < limit_) return false;
  if (rolling_ != mark_ && recorded_ < 2 * limit_ && mark_ != 0) return false;
  mark_ = rolling_;
  return true;
}

}  // namespace torch_pjrt::graph
