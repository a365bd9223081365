#pragma once

#include <string>
#include <string_view>

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// What an error says, apart from whose it is.
struct ErrorText {
  PJRT_Error_Code code = PJRT_Error_Code_OK;
  std::string message;

  explicit operator bool() const noexcept { return code != PJRT_Error_Code_OK; }
};

// An error of our own; the caller destroys it through the function table.
PJRT_Error* make_error(PJRT_Error_Code code, std::string_view message);
// Null if the text is no error.
PJRT_Error* make_error(const ErrorText& text);

// Frees an error, ours or the wrapped plugin's (or null: no error), and returns what it said.
ErrorText take_error(PJRT_Error* error);

// "INTERNAL" and so on; false if there is none of that name.
bool code_of(std::string_view name, PJRT_Error_Code& code) noexcept;
std::string_view name(PJRT_Error_Code code) noexcept;

// The entries of the table: for our errors, and for those of the wrapped plugin.
void destroy_error(PJRT_Error_Destroy_Args* args);
void error_message(PJRT_Error_Message_Args* args);
PJRT_Error* error_code(PJRT_Error_GetCode_Args* args);

}  // namespace pjrt_chaos
