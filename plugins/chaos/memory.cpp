#include "memory.h"

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "counts.h"
#include "errors.h"
#include "options.h"
#include "types.h"
#include "wrapped.h"

namespace pjrt_chaos {
namespace {

// What one execution gives out on each device.
struct Outputs {
  size_t count = 0;
  int64_t bytes = 0;
};

struct Ledger {
  std::mutex mutex;
  std::unordered_map<const PJRT_Buffer*, int64_t> bytes_of;
  std::unordered_map<const PJRT_LoadedExecutable*, Outputs> outputs_of;
};
Ledger& ledger() {
  static auto* const instance = new Ledger;
  return *instance;
}

bool is_limited() { return options().memory_limit != std::numeric_limits<int64_t>::max(); }

int64_t size_of(PJRT_Buffer* buffer) {
  CHAOS_ARGS(PJRT_Buffer_OnDeviceSizeInBytes, args);
  args.buffer = buffer;
  if (ask(&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes, args)) return 0;
  return static_cast<int64_t>(args.on_device_size_in_bytes);
}

PJRT_Error* refuse(int64_t bytes, const char* function) {
  const int64_t limit = options().memory_limit;
  const int64_t alive = value(Count::kBytesAlive);
  if (bytes <= limit - alive) return nullptr;
  add(Count::kMemoryRefused);
  return make_error(PJRT_Error_Code_RESOURCE_EXHAUSTED,
                    std::string("chaos: out of memory in ") + function + ": asked for " +
                        std::to_string(bytes) + " bytes, " + std::to_string(alive) + " of " +
                        std::to_string(limit) + " in use");
}

int64_t output_bytes(PJRT_Executable* executable) {
  CHAOS_ARGS(PJRT_Executable_OutputElementTypes, types);
  types.executable = executable;
  CHAOS_ARGS(PJRT_Executable_OutputDimensions, shapes);
  shapes.executable = executable;
  if (ask(&PJRT_Api::PJRT_Executable_OutputElementTypes, types) ||
      ask(&PJRT_Api::PJRT_Executable_OutputDimensions, shapes)) {
    return 0;
  }
  int64_t bytes = 0;
  const int64_t* dimensions = shapes.dims;
  for (size_t i = 0; i < shapes.num_outputs; ++i) {
    bytes += host_bytes(types.output_types[i], dimensions, shapes.dim_sizes[i]);
    dimensions += shapes.dim_sizes[i];
  }
  return bytes;
}

Outputs outputs_of(PJRT_LoadedExecutable* loaded) {
  {
    const std::lock_guard lock(ledger().mutex);
    const auto found = ledger().outputs_of.find(loaded);
    if (found != ledger().outputs_of.end()) return found->second;
  }
  Outputs outputs;
  CHAOS_ARGS(PJRT_LoadedExecutable_GetExecutable, args);
  args.loaded_executable = loaded;
  if (!ask(&PJRT_Api::PJRT_LoadedExecutable_GetExecutable, args)) {
    CHAOS_ARGS(PJRT_Executable_NumOutputs, count);
    count.executable = args.executable;
    if (!ask(&PJRT_Api::PJRT_Executable_NumOutputs, count)) outputs.count = count.num_outputs;
    outputs.bytes = output_bytes(args.executable);
    CHAOS_ARGS(PJRT_Executable_Destroy, destroy);
    destroy.executable = args.executable;
    ask(&PJRT_Api::PJRT_Executable_Destroy, destroy);
  }
  const std::lock_guard lock(ledger().mutex);
  return ledger().outputs_of[loaded] = outputs;
}

// The bytes of a buffer are gone; the handle stays until it is destroyed.
void empty(const PJRT_Buffer* buffer) {
  const std::lock_guard lock(ledger().mutex);
  const auto found = ledger().bytes_of.find(buffer);
  if (found == ledger().bytes_of.end()) return;
  add(Count::kBytesAlive, -found->second);
  found->second = 0;
}

bool is_deleted(PJRT_Buffer* buffer) {
  CHAOS_ARGS(PJRT_Buffer_IsDeleted, args);
  args.buffer = buffer;
  return !ask(&PJRT_Api::PJRT_Buffer_IsDeleted, args) && args.is_deleted;
}

}  // namespace

PJRT_Error* refuse_memory(const PJRT_Client_BufferFromHostBuffer_Args& args) {
  return refuse(host_bytes(args.type, args.dims, args.num_dims),
                "PJRT_Client_BufferFromHostBuffer");
}
PJRT_Error* refuse_memory(const PJRT_Client_CreateUninitializedBuffer_Args& args) {
  return refuse(host_bytes(args.shape_element_type, args.shape_dims, args.shape_num_dims),
                "PJRT_Client_CreateUninitializedBuffer");
}
PJRT_Error* refuse_memory(const PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args) {
  int64_t bytes = 0;
  for (size_t i = 0; i < args.num_shape_specs; ++i) {
    const PJRT_ShapeSpec& spec = args.shape_specs[i];
    bytes += host_bytes(spec.element_type, spec.dims, spec.num_dims);
  }
  return refuse(bytes, "PJRT_Client_CreateBuffersForAsyncHostToDevice");
}
PJRT_Error* refuse_memory(const PJRT_Buffer_CopyToDevice_Args& args) {
  return is_limited() ? refuse(size_of(args.buffer), "PJRT_Buffer_CopyToDevice") : nullptr;
}
PJRT_Error* refuse_memory(const PJRT_Buffer_CopyToMemory_Args& args) {
  return is_limited() ? refuse(size_of(args.buffer), "PJRT_Buffer_CopyToMemory") : nullptr;
}
PJRT_Error* refuse_memory(const PJRT_LoadedExecutable_Execute_Args& args) {
  if (!is_limited()) return nullptr;
  return refuse(outputs_of(args.executable).bytes * static_cast<int64_t>(args.num_devices),
                "PJRT_LoadedExecutable_Execute");
}

void add_buffer(PJRT_Buffer* buffer) {
  if (buffer == nullptr) return;
  const int64_t bytes = size_of(buffer);
  const std::lock_guard lock(ledger().mutex);
  ledger().bytes_of[buffer] = bytes;
  add(Count::kBuffersAlive);
  add(Count::kBytesAlive, bytes);
}

void account_after(const PJRT_LoadedExecutable_Execute_Args& args) {
  const size_t outputs = outputs_of(args.executable).count;
  for (size_t device = 0; device < args.num_devices; ++device) {
    for (size_t i = 0; i < outputs; ++i) add_buffer(args.output_lists[device][i]);
    for (size_t i = 0; i < args.num_args; ++i) {
      PJRT_Buffer* const argument = args.argument_lists[device][i];
      if (is_deleted(argument)) empty(argument);
    }
  }
}

void account_after(const PJRT_Buffer_Delete_Args& args) { empty(args.buffer); }

void account_before(const PJRT_Buffer_Destroy_Args& args) {
  const std::lock_guard lock(ledger().mutex);
  const auto found = ledger().bytes_of.find(args.buffer);
  if (found == ledger().bytes_of.end()) return;
  add(Count::kBuffersAlive, -1);
  add(Count::kBytesAlive, -found->second);
  ledger().bytes_of.erase(found);
}

void account_before(const PJRT_LoadedExecutable_Destroy_Args& args) {
  const std::lock_guard lock(ledger().mutex);
  ledger().outputs_of.erase(args.executable);
}

bool serve_memory(PJRT_Device_MemoryStats_Args& args) {
  if (!is_limited()) return false;
  args.bytes_in_use = value(Count::kBytesAlive);
  args.bytes_limit = options().memory_limit;
  args.bytes_limit_is_set = true;
  args.peak_bytes_in_use_is_set = false;
  args.num_allocs_is_set = false;
  args.largest_alloc_size_is_set = false;
  args.bytes_reserved_is_set = false;
  args.peak_bytes_reserved_is_set = false;
  args.bytes_reservable_limit_is_set = false;
  args.largest_free_block_bytes_is_set = false;
  args.pool_bytes_is_set = false;
  args.peak_pool_bytes_is_set = false;
  return true;
}

}  // namespace pjrt_chaos
