#pragma once

#include "pjrt/buffer.h"

namespace torch_pjrt::pjrt {

// Whether the device keeps the buffer's elements in row-major order without tiles or gaps, so that
// raw bytes may be written to it. False for a plugin that does not tell.
bool is_row_major_on_device(const Buffer& buffer) noexcept;

}  // namespace torch_pjrt::pjrt
