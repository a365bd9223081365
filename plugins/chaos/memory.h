#pragma once

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// An error if the call's buffers would exceed `memory_limit`; null for all other calls.
template <typename Args>
PJRT_Error* refuse_memory(const Args&) {
  return nullptr;
}
PJRT_Error* refuse_memory(const PJRT_Client_BufferFromHostBuffer_Args& args);
PJRT_Error* refuse_memory(const PJRT_Client_CreateUninitializedBuffer_Args& args);
PJRT_Error* refuse_memory(const PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args);
PJRT_Error* refuse_memory(const PJRT_Buffer_CopyToDevice_Args& args);
PJRT_Error* refuse_memory(const PJRT_Buffer_CopyToMemory_Args& args);
PJRT_Error* refuse_memory(const PJRT_LoadedExecutable_Execute_Args& args);

// Notes a buffer that was given out.
void add_buffer(PJRT_Buffer* buffer);

// Notes what a call that succeeded made and freed.
template <typename Args>
void account_after(const Args&) {}
#define CHAOS_BUFFER(function, field) \
  inline void account_after(const function##_Args& args) { add_buffer(args.field); }
#define CHAOS_EVENT(function, field)
#include "handles.inc"
#undef CHAOS_EVENT
#undef CHAOS_BUFFER
void account_after(const PJRT_LoadedExecutable_Execute_Args& args);
void account_after(const PJRT_Buffer_Delete_Args& args);

// Notes what a call is about to free: afterwards its address may be another's.
template <typename Args>
void account_before(const Args&) {}
void account_before(const PJRT_Buffer_Destroy_Args& args);
void account_before(const PJRT_LoadedExecutable_Destroy_Args& args);

// Serves PJRT_Device_MemoryStats where there is a limit; false for all other calls.
template <typename Args>
bool serve_memory(Args&) {
  return false;
}
bool serve_memory(PJRT_Device_MemoryStats_Args& args);

}  // namespace pjrt_chaos
