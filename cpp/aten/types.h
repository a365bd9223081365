#pragma once

#include <ATen/core/Tensor.h>

#include "graph/type.h"

namespace torch_pjrt::aten {

// The element type with the same values as a PyTorch dtype. Throws TypeError for dtypes that no
// device array has (quantised ones, bits).
graph::ElementType element_type(c10::ScalarType dtype);

// The PyTorch dtype of an element type. Throws TypeError where PyTorch has none.
c10::ScalarType scalar_type(graph::ElementType element);

inline graph::Type type_of(c10::ScalarType dtype, c10::IntArrayRef sizes) {
  return {element_type(dtype), graph::Dimensions(sizes.begin(), sizes.end())};
}

}  // namespace torch_pjrt::aten
