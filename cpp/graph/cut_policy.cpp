#include "graph/cut_policy.h"

#include <algorithm>

namespace torch_pjrt::graph {

void CutPolicy::set_limit(size_t limit) {
  if (limit == limit_) return;
  recent_.assign(std::clamp<size_t>(limit / 2, 1, kMostWindow), 0);
  limit_ = limit;
  recorded_ = position_ = 0;
  rolling_ = mark_ = 0;
  oldest_power_ = 1;
  for (size_t i = 0; i < recent_.size(); ++i) oldest_power_ *= kBase;
}

bool CutPolicy::note(uint64_t operator_identity) noexcept {
  rolling_ = rolling_ * kBase + operator_identity - recent_[position_] * oldest_power_;
  recent_[position_] = operator_identity;
  if (++position_ == recent_.size()) position_ = 0;
  if (++recorded_ < limit_) return false;
  if (rolling_ != mark_ && recorded_ < 2 * limit_ && mark_ != 0) return false;
  mark_ = rolling_;
  return true;
}

}  // namespace torch_pjrt::graph
