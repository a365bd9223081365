#pragma once

#include <cstddef>
#include <string_view>

#include "pjrt/error.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// Whether the plugin's function table reaches as far as this entry, and fills it:
//   has_function(api, &PJRT_Api::PJRT_Client_DmaMap)
template <typename Function>
bool has_function(const PJRT_Api* api, Function* PJRT_Api::* entry) noexcept {
  const auto offset =
      reinterpret_cast<const char*>(&(api->*entry)) - reinterpret_cast<const char*>(api);
  return static_cast<size_t>(offset) + sizeof(Function*) <= api->struct_size &&
         api->*entry != nullptr;
}

// Throws kUnimplemented, naming the plugin and the function.
[[noreturn]] void throw_unimplemented(const PJRT_Api* api, std::string_view function,
                                      std::string_view what_was_asked);

// Calls through TORCH_PJRT_CALL, below.
template <typename Function, typename Args>
void call(const PJRT_Api* api, Function* PJRT_Api::* entry, std::string_view function, Args& args,
          std::string_view what_was_asked) {
  if (!has_function(api, entry)) [[unlikely]] {
    throw_unimplemented(api, function, what_was_asked);
  }
  check(api, (api->*entry)(&args), what_was_asked);
}

template <typename Function, typename Args>
void call_in_destructor(const PJRT_Api* api, Function* PJRT_Api::* entry, Args& args,
                        std::string_view what_was_asked) noexcept {
  if (has_function(api, entry)) check_in_destructor(api, (api->*entry)(&args), what_was_asked);
}

}  // namespace torch_pjrt::pjrt

// Declares `variable` as the zeroed arguments of `function`, with its size filled in.
#define TORCH_PJRT_ARGS(function, variable) \
  function##_Args variable{};               \
  variable.struct_size = function##_Args_STRUCT_SIZE

// Calls an entry of the table; throws Error if the plugin lacks it or it fails.
#define TORCH_PJRT_CALL(api, function, args, what_was_asked) \
  ::torch_pjrt::pjrt::call((api), &PJRT_Api::function, #function, (args), (what_was_asked))

#define TORCH_PJRT_CALL_IN_DESTRUCTOR(api, function, args, what_was_asked) \
  ::torch_pjrt::pjrt::call_in_destructor((api), &PJRT_Api::function, (args), (what_was_asked))
