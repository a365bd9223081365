#include "base/blocking_region.h"

#include <atomic>

namespace torch_pjrt::base {
namespace {
std::atomic<const BlockingHooks*> current_hooks{nullptr};
}  // namespace

void set_blocking_hooks(const BlockingHooks* hooks) noexcept {
  current_hooks.store(hooks, std::memory_order_release);
}

BlockingRegion::BlockingRegion() noexcept : hooks_(current_hooks.load(std::memory_order_acquire)) {
  if (hooks_ != nullptr) token_ = hooks_->enter();
}

BlockingRegion::~BlockingRegion() {
  if (token_ != nullptr) hooks_->leave(token_);
}

}  // namespace torch_pjrt::base
