#include "aten/number_range.h"

#include <ATen/Dispatch_v2.h>

namespace torch_pjrt::aten {

void check_fits(const c10::Scalar& value, c10::ScalarType dtype) {
  AT_DISPATCH_V2(dtype, "store a number", AT_WRAP([&] { (void)value.to<scalar_t>(); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16, at::kComplexHalf);
}

}  // namespace torch_pjrt::aten
