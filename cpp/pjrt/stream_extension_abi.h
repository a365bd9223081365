// PJRT's stream extension, which pjrt_c_api.h names (PJRT_Extension_Type_Stream) and does not
// declare: its ABI, in plain C, so that whoever has pjrt_c_api.h alone can use it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

struct TorchPjrt_StreamForReadyEvents_Args {
  size_t struct_size;
  PJRT_Device* device;
  intptr_t stream;  // out: where work that readies memory for the device is to be put
};

struct TorchPjrt_WaitUntilReadyOnStream_Args {
  size_t struct_size;
  intptr_t stream;  // waits, not the host, until the buffer's contents are there
  PJRT_Buffer* buffer;
};

struct TorchPjrt_StreamExtension {
  PJRT_Extension_Base base;
  PJRT_Error* (*get_stream)(struct TorchPjrt_StreamForReadyEvents_Args* args);
  PJRT_Error* (*wait_stream)(struct TorchPjrt_WaitUntilReadyOnStream_Args* args);
};

#ifdef __cplusplus
}
static_assert(sizeof(TorchPjrt_StreamForReadyEvents_Args) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_StreamForReadyEvents_Args, stream) == 2 * sizeof(void*));
static_assert(sizeof(TorchPjrt_WaitUntilReadyOnStream_Args) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_WaitUntilReadyOnStream_Args, buffer) == 2 * sizeof(void*));
static_assert(sizeof(PJRT_Extension_Base) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_StreamExtension, get_stream) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_StreamExtension, wait_stream) == 4 * sizeof(void*));
#endif
