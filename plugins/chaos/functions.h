#pragma once

#include <cstddef>
#include <string_view>

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// The entries of PJRT_Api, in its order.
enum class Function : int {
#define CHAOS_FUNCTION(name) k##name,
#include "functions.inc"
#undef CHAOS_FUNCTION
  kCount
};

inline constexpr size_t kFunctionCount = static_cast<size_t>(Function::kCount);
static_assert(offsetof(PJRT_Api, PJRT_Error_Destroy) + kFunctionCount * sizeof(void*) ==
                  PJRT_Api_STRUCT_SIZE,
              "lists_from_header.cmake missed a function of pjrt_c_api.h");

inline constexpr std::string_view kFunctionNames[] = {
#define CHAOS_FUNCTION(name) #name,
#include "functions.inc"
#undef CHAOS_FUNCTION
};

constexpr std::string_view name(Function function) {
  return kFunctionNames[static_cast<size_t>(function)];
}

// kCount if there is none of that name.
Function function_of(std::string_view name) noexcept;

// Whether it only gives something back: then a caller has no other way to do so, and a failure is
// reported after it was done.
constexpr bool is_release(Function function) {
  const std::string_view text = name(function);
  return text.ends_with("_Destroy") || text.ends_with("_DmaUnmap") ||
         text.find("Decrease") != std::string_view::npos;
}

}  // namespace pjrt_chaos
