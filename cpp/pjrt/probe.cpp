#include "pjrt/probe.h"

namespace torch_pjrt::pjrt {

bool may_pass(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kCancelled:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kAborted:
    case ErrorCode::kUnavailable:
    case ErrorCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace torch_pjrt::pjrt
