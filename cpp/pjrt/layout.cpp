#include "pjrt/layout.h"

#include <exception>

#include "pjrt/call.h"

namespace torch_pjrt::pjrt {
namespace {

bool is_row_major(const PJRT_Buffer_MemoryLayout_Tiled& layout) noexcept {
  if (layout.num_tiles != 0) return false;
  for (size_t i = 0; i < layout.minor_to_major_size; ++i) {
    if (layout.minor_to_major[i] != static_cast<int64_t>(layout.minor_to_major_size - 1 - i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_row_major_on_device(const Buffer& buffer) noexcept {
  TORCH_PJRT_ARGS(PJRT_Buffer_GetMemoryLayout, args);
  args.buffer = buffer.get();
  try {
    TORCH_PJRT_CALL(buffer.api(), PJRT_Buffer_GetMemoryLayout, args, "read a buffer's layout");
  } catch (const std::exception&) {
    return false;  // refusing is an answer here
  }
  return args.layout.type == PJRT_Buffer_MemoryLayout_Type_Tiled && is_row_major(args.layout.tiled);
}

}  // namespace torch_pjrt::pjrt
