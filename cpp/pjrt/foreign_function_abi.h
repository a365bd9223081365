// PJRT's FFI extension and what it hands to the functions that programs call, neither declared by
// pjrt_c_api.h: the ABI, in plain C, as far as it is used here. From XLA's
// xla/pjrt/c/pjrt_c_api_ffi_extension.h and xla/ffi/api/c_api.h (major version 0).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pjrt_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

struct TorchPjrt_FfiStruct {
  size_t struct_size;
  struct TorchPjrt_FfiExtension* extension_start;
};

struct TorchPjrt_FfiExtension {
  size_t struct_size;
  int type;
  struct TorchPjrt_FfiExtension* next;
};

struct TorchPjrt_FfiVersion {
  struct TorchPjrt_FfiStruct base;
  int major_version;
  int minor_version;
};

struct TorchPjrt_FfiErrorCreate_Args {
  struct TorchPjrt_FfiStruct base;
  const char* message;
  int code;  // absl's, as PJRT_Error_Code
};

struct TorchPjrt_FfiApi {
  struct TorchPjrt_FfiStruct base;
  struct TorchPjrt_FfiVersion version;
  const void* internal_api;
  void* (*error_create)(struct TorchPjrt_FfiErrorCreate_Args* args);
};

struct TorchPjrt_FfiBuffer {
  struct TorchPjrt_FfiStruct base;
  int element_type;  // as xla_data.proto numbers them
  void* data;
  int64_t rank;
  int64_t* dimensions;
};

struct TorchPjrt_FfiArray {
  int element_type;
  size_t size;
  void* data;
};

struct TorchPjrt_FfiName {
  const char* data;
  size_t size;
};

struct TorchPjrt_FfiBuffers {  // XLA_FFI_Args, XLA_FFI_Rets
  struct TorchPjrt_FfiStruct base;
  int64_t size;
  int* kinds;  // 1: a buffer
  void** buffers;
};

struct TorchPjrt_FfiAttributes {  // sorted by name
  struct TorchPjrt_FfiStruct base;
  int64_t size;
  int* kinds;  // 1: an array
  struct TorchPjrt_FfiName** names;
  void** values;
};

struct TorchPjrt_FfiCallFrame {
  struct TorchPjrt_FfiStruct base;
  const struct TorchPjrt_FfiApi* api;
  void* context;
  int stage;  // 3: execute
  struct TorchPjrt_FfiBuffers arguments;
  struct TorchPjrt_FfiBuffers results;
  struct TorchPjrt_FfiAttributes attributes;
};

// Asked of a function when it is registered, by a call frame with this extension (type 1).
struct TorchPjrt_FfiMetadata {
  size_t struct_size;
  struct TorchPjrt_FfiVersion version;  // out
  uint32_t traits;                      // out
};

struct TorchPjrt_FfiMetadataExtension {
  struct TorchPjrt_FfiExtension base;
  struct TorchPjrt_FfiMetadata* metadata;
};

// Null: done. Else what error_create gave.
typedef void* TorchPjrt_FfiHandler(struct TorchPjrt_FfiCallFrame* frame);

struct TorchPjrt_FfiRegisterHandler_Args {
  size_t struct_size;
  const char* target;
  size_t target_size;
  void* handler;
  const char* platform;
  size_t platform_size;
  int traits;
};

struct TorchPjrt_PjrtFfiExtension {
  PJRT_Extension_Base base;
  void* register_type;
  void* add_user_data;
  PJRT_Error* (*register_handler)(struct TorchPjrt_FfiRegisterHandler_Args* args);
};

#ifdef __cplusplus
}
static_assert(sizeof(TorchPjrt_FfiStruct) == 2 * sizeof(void*));
static_assert(sizeof(TorchPjrt_FfiExtension) == 3 * sizeof(void*));
static_assert(sizeof(TorchPjrt_FfiVersion) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiErrorCreate_Args, message) == 2 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiApi, error_create) == 6 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiBuffer, data) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiBuffer, dimensions) == 5 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiArray, data) == 2 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiCallFrame, stage) == 4 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiCallFrame, arguments) == 5 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiCallFrame, results) == 10 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiCallFrame, attributes) == 15 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiMetadata, traits) == 4 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiMetadataExtension, metadata) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiRegisterHandler_Args, handler) == 3 * sizeof(void*));
static_assert(offsetof(TorchPjrt_FfiRegisterHandler_Args, traits) == 6 * sizeof(void*));
static_assert(offsetof(TorchPjrt_PjrtFfiExtension, register_handler) == 5 * sizeof(void*));
#endif
