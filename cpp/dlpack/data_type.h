#pragma once

#include <ATen/dlpack.h>

#include "pjrt/element_type.h"

namespace torch_pjrt::dlpack {

// The DLPack type with the same values as an element type, and back. Both throw pjrt::Error
// (kInvalidArgument) where there is none: packed types below 8 bits, vectors, opaque handles.
DLDataType data_type(pjrt::ElementType type);
pjrt::ElementType element_type(DLDataType type);

}  // namespace torch_pjrt::dlpack
