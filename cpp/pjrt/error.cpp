#include "pjrt/error.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "base/metrics.h"
#include "pjrt/call.h"
#include "pjrt/plugin.h"

namespace torch_pjrt::pjrt {
namespace {

static_assert(static_cast<int>(ErrorCode::kOk) == PJRT_Error_Code_OK);
static_assert(static_cast<int>(ErrorCode::kCancelled) == PJRT_Error_Code_CANCELLED);
static_assert(static_cast<int>(ErrorCode::kUnknown) == PJRT_Error_Code_UNKNOWN);
static_assert(static_cast<int>(ErrorCode::kInvalidArgument) == PJRT_Error_Code_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::kDeadlineExceeded) == PJRT_Error_Code_DEADLINE_EXCEEDED);
static_assert(static_cast<int>(ErrorCode::kNotFound) == PJRT_Error_Code_NOT_FOUND);
static_assert(static_cast<int>(ErrorCode::kAlreadyExists) == PJRT_Error_Code_ALREADY_EXISTS);
static_assert(static_cast<int>(ErrorCode::kPermissionDenied) == PJRT_Error_Code_PERMISSION_DENIED);
static_assert(static_cast<int>(ErrorCode::kResourceExhausted) ==
              PJRT_Error_Code_RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(ErrorCode::kFailedPrecondition) ==
              PJRT_Error_Code_FAILED_PRECONDITION);
static_assert(static_cast<int>(ErrorCode::kAborted) == PJRT_Error_Code_ABORTED);
static_assert(static_cast<int>(ErrorCode::kOutOfRange) == PJRT_Error_Code_OUT_OF_RANGE);
static_assert(static_cast<int>(ErrorCode::kUnimplemented) == PJRT_Error_Code_UNIMPLEMENTED);
static_assert(static_cast<int>(ErrorCode::kInternal) == PJRT_Error_Code_INTERNAL);
static_assert(static_cast<int>(ErrorCode::kUnavailable) == PJRT_Error_Code_UNAVAILABLE);
static_assert(static_cast<int>(ErrorCode::kDataLoss) == PJRT_Error_Code_DATA_LOSS);
static_assert(static_cast<int>(ErrorCode::kUnauthenticated) == PJRT_Error_Code_UNAUTHENTICATED);

std::string compose(ErrorCode code, std::string_view what_was_asked, std::string_view message) {
  std::string text(what_was_asked);
  text += ": ";
  text += name(code);
  text += ": ";
  text += message;
  return text;
}

void destroy_error(const PJRT_Api* api, PJRT_Error* error) noexcept {
  TORCH_PJRT_ARGS(PJRT_Error_Destroy, args);
  args.error = error;
  api->PJRT_Error_Destroy(&args);
}

ErrorCode code_of(const PJRT_Api* api, const PJRT_Error* error) noexcept {
  TORCH_PJRT_ARGS(PJRT_Error_GetCode, args);
  args.error = error;
  if (PJRT_Error* second = api->PJRT_Error_GetCode(&args)) {
    destroy_error(api, second);
    return ErrorCode::kUnknown;
  }
  return static_cast<ErrorCode>(args.code);
}

std::string_view message_of(const PJRT_Api* api, const PJRT_Error* error) noexcept {
  TORCH_PJRT_ARGS(PJRT_Error_Message, args);
  args.error = error;
  api->PJRT_Error_Message(&args);
  return {args.message, args.message_size};
}

}  // namespace

std::string_view name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kOk:
      return "OK";
    case ErrorCode::kCancelled:
      return "CANCELLED";
    case ErrorCode::kUnknown:
      return "UNKNOWN";
    case ErrorCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case ErrorCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case ErrorCode::kNotFound:
      return "NOT_FOUND";
    case ErrorCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case ErrorCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case ErrorCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case ErrorCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case ErrorCode::kAborted:
      return "ABORTED";
    case ErrorCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case ErrorCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case ErrorCode::kInternal:
      return "INTERNAL";
    case ErrorCode::kUnavailable:
      return "UNAVAILABLE";
    case ErrorCode::kDataLoss:
      return "DATA_LOSS";
    case ErrorCode::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "an unknown code";
}

Error::Error(ErrorCode code, std::string_view what_was_asked, std::string_view message)
    : std::runtime_error(compose(code, what_was_asked, message)), code_(code) {}

Error take_error(const PJRT_Api* api, PJRT_Error* error, std::string_view what_was_asked) {
  struct Owner {
    const PJRT_Api* api;
    PJRT_Error* error;
    ~Owner() { destroy_error(api, error); }
  } owner{api, error};
  return Error(code_of(api, error), what_was_asked, message_of(api, error));
}

void throw_error(const PJRT_Api* api, PJRT_Error* error, std::string_view what_was_asked) {
  throw take_error(api, error, what_was_asked);
}

void throw_unimplemented(const PJRT_Api* api, std::string_view function,
                         std::string_view what_was_asked) {
  throw Error(ErrorCode::kUnimplemented, what_was_asked,
              "the plugin " + plugin_path(api) + " has no " + std::string(function) +
                  "; use a plugin that has it");
}

void check_in_destructor(const PJRT_Api* api, PJRT_Error* error,
                         std::string_view what_was_asked) noexcept {
  if (error == nullptr) return;
  const ErrorCode code = code_of(api, error);
  static std::atomic<uint64_t> warned_codes{0};
  const uint64_t bit = uint64_t{1} << (static_cast<unsigned>(code) & 63u);
  if ((warned_codes.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) {
    const std::string_view message = message_of(api, error);
    std::fprintf(stderr,
                 "torch_pjrt: warning: %.*s: %.*s: %.*s (in a destructor; later ones with this "
                 "code are only counted)\n",
                 static_cast<int>(what_was_asked.size()), what_was_asked.data(),
                 static_cast<int>(name(code).size()), name(code).data(),
                 static_cast<int>(message.size()), message.data());
  }
  destroy_error(api, error);
  try {
    base::counter("pjrt.destructor_errors").add();
  } catch (const std::exception&) {
    // Out of memory while creating the counter: the warning above has to do.
  }
}

}  // namespace torch_pjrt::pjrt
