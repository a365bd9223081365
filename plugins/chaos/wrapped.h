#pragma once

#include <cstddef>
#include <string>

#include "errors.h"
#include "pjrt_c_api.h"

namespace pjrt_chaos {

// The function table of the plugin that we wrap; null until load_wrapped has succeeded.
const PJRT_Api* wrapped() noexcept;

// Loads the plugin at `path`; an error if it cannot be.
ErrorText load_wrapped(const std::string& path);

// Whether the wrapped plugin's table has this entry.
template <typename Function>
bool has(Function* PJRT_Api::* entry) noexcept {
  const PJRT_Api* api = wrapped();
  const auto offset =
      reinterpret_cast<const char*>(&(api->*entry)) - reinterpret_cast<const char*>(api);
  return static_cast<size_t>(offset) + sizeof(Function*) <= api->struct_size &&
         api->*entry != nullptr;
}

// Calls the wrapped plugin for ourselves; an error if it lacks the function.
template <typename Function, typename Args>
ErrorText ask(Function* PJRT_Api::* entry, Args& args) {
  if (!has(entry))
    return {PJRT_Error_Code_UNIMPLEMENTED, "the wrapped plugin has no such function"};
  return take_error((wrapped()->*entry)(&args));
}

}  // namespace pjrt_chaos

// The zeroed arguments of a function, with their size filled in.
#define CHAOS_ARGS(function, variable) \
  function##_Args variable{};          \
  variable.struct_size = function##_Args_STRUCT_SIZE
