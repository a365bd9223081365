#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// Adds the type or the set of that name ("f64", "tpu"); false if there is none.
bool add_types(std::string_view name, std::bitset<64>& types);
// The sets with their members, for messages.
std::string type_sets();

// Bits of an element in a host array; 0 for what has none.
int bit_width(PJRT_Buffer_Type type) noexcept;
// Bytes of a host array; a type below 8 bits takes a byte an element.
int64_t host_bytes(PJRT_Buffer_Type type, const int64_t* dimensions, size_t rank) noexcept;

// An error if the call needs a type that the device is said to lack; null for all other calls.
template <typename Args>
PJRT_Error* refuse_types(const Args&) {
  return nullptr;
}
PJRT_Error* refuse_types(const PJRT_Client_BufferFromHostBuffer_Args& args);
PJRT_Error* refuse_types(const PJRT_Client_CreateUninitializedBuffer_Args& args);
PJRT_Error* refuse_types(const PJRT_Client_CreateAliasBuffer_Args& args);
PJRT_Error* refuse_types(const PJRT_Client_CreateViewOfDeviceBuffer_Args& args);
PJRT_Error* refuse_types(const PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args);
PJRT_Error* refuse_types(const PJRT_Client_Compile_Args& args);
PJRT_Error* refuse_types(const PJRT_Compile_Args& args);

// The same for what a call made: a program in a form that could not be read is judged by its
// outputs. What was made is destroyed.
template <typename Args>
PJRT_Error* refuse_made_types(Args&) {
  return nullptr;
}
PJRT_Error* refuse_made_types(PJRT_Client_Compile_Args& args);
PJRT_Error* refuse_made_types(PJRT_Compile_Args& args);
PJRT_Error* refuse_made_types(PJRT_Executable_DeserializeAndLoad_Args& args);

}  // namespace pjrt_chaos
