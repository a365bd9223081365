#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// The values are those of PJRT_Error_Code (error.cpp asserts it).
enum class ErrorCode : int {
  kOk = 0,
  kCancelled,
  kUnknown,
  kInvalidArgument,
  kDeadlineExceeded,
  kNotFound,
  kAlreadyExists,
  kPermissionDenied,
  kResourceExhausted,
  kFailedPrecondition,
  kAborted,
  kOutOfRange,
  kUnimplemented,
  kInternal,
  kUnavailable,
  kDataLoss,
  kUnauthenticated,
};

// RESOURCE_EXHAUSTED and so on.
std::string_view name(ErrorCode code) noexcept;

// The one exception of the layers below aten. `what()` reads "what was asked: CODE: what is wrong".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string_view what_was_asked, std::string_view message);

  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// Frees `error`, which must not be null, and returns what it said.
Error take_error(const PJRT_Api* api, PJRT_Error* error, std::string_view what_was_asked);

[[noreturn]] void throw_error(const PJRT_Api* api, PJRT_Error* error,
                              std::string_view what_was_asked);

// Throws, and frees the PJRT error, if there is one.
inline void check(const PJRT_Api* api, PJRT_Error* error, std::string_view what_was_asked) {
  if (error != nullptr) [[unlikely]] {
    throw_error(api, error, what_was_asked);
  }
}

// For destructors: counts `pjrt.destructor_errors` and warns on stderr once for each code.
void check_in_destructor(const PJRT_Api* api, PJRT_Error* error,
                         std::string_view what_was_asked) noexcept;

}  // namespace torch_pjrt::pjrt
