#include "errors.h"

#include <memory>
#include <mutex>
#include <unordered_set>

#include "counts.h"
#include "wrapped.h"

namespace pjrt_chaos {
namespace {

// Ours are known by their addresses: a call of an extension, which is not wrapped, gives out errors
// of the wrapped plugin.
struct Known {
  std::mutex mutex;
  std::unordered_set<const void*> errors;
};
Known& known() {
  static auto* const instance = new Known;
  return *instance;
}

const ErrorText* find(const PJRT_Error* error) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  return all.errors.count(error) != 0 ? reinterpret_cast<const ErrorText*>(error) : nullptr;
}

}  // namespace

PJRT_Error* make_error(PJRT_Error_Code code, std::string_view message) {
  auto text = std::make_unique<ErrorText>(ErrorText{code, std::string(message)});
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  all.errors.insert(text.get());
  add(Count::kErrorsAlive);
  return reinterpret_cast<PJRT_Error*>(text.release());
}

PJRT_Error* make_error(const ErrorText& text) {
  return text ? make_error(text.code, text.message) : nullptr;
}

ErrorText take_error(PJRT_Error* error) {
  ErrorText text;
  if (error == nullptr) return text;
  PJRT_Error_GetCode_Args code{};
  code.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE;
  code.error = error;
  text.code = PJRT_Error_Code_UNKNOWN;
  if (PJRT_Error* second = error_code(&code)) {
    take_error(second);
  } else {
    text.code = code.code;
  }
  PJRT_Error_Message_Args message{};
  message.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
  message.error = error;
  error_message(&message);
  text.message.assign(message.message, message.message_size);
  PJRT_Error_Destroy_Args destroy{};
  destroy.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  destroy_error(&destroy);
  return text;
}

bool code_of(std::string_view name, PJRT_Error_Code& code) noexcept {
#define CHAOS_ERROR_CODE(spelling)     \
  if (name == #spelling) {             \
    code = PJRT_Error_Code_##spelling; \
    return true;                       \
  }
#include "error_codes.inc"
#undef CHAOS_ERROR_CODE
  return false;
}

std::string_view name(PJRT_Error_Code code) noexcept {
#define CHAOS_ERROR_CODE(spelling) \
  if (code == PJRT_Error_Code_##spelling) return #spelling;
#include "error_codes.inc"
#undef CHAOS_ERROR_CODE
  return "an unknown code";
}

void destroy_error(PJRT_Error_Destroy_Args* args) {
  {
    Known& all = known();
    const std::lock_guard lock(all.mutex);
    if (all.errors.erase(args->error) != 0) {
      add(Count::kErrorsAlive, -1);
      delete reinterpret_cast<ErrorText*>(args->error);
      return;
    }
  }
  if (wrapped() != nullptr) wrapped()->PJRT_Error_Destroy(args);
}

void error_message(PJRT_Error_Message_Args* args) {
  if (const ErrorText* text = find(args->error)) {
    args->message = text->message.data();
    args->message_size = text->message.size();
  } else if (wrapped() != nullptr) {
    wrapped()->PJRT_Error_Message(args);
  }
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  if (const ErrorText* text = find(args->error)) {
    args->code = text->code;
    return nullptr;
  }
  return wrapped()->PJRT_Error_GetCode(args);
}

}  // namespace pjrt_chaos
