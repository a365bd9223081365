#include "aten/number_range.h"

#include <ATen/Dispatch_v2.h>

#include <limits>

#include "aten/checks.h"

namespace torch_pjrt::aten {
namespace {

// Whether the operand's element cannot be stored as T.
template <typename T>
void emit_out_of_range(Emission& e) {
  using Limits = std::numeric_limits<T>;
  StableHloBuilder& b = e.builder();
  Operand x = b.flatten(e.operand(0));
  Operand outside = b.zeros({graph::ElementType::kPred, x.dimensions()});
  if (pjrt::is_complex(x.element())) {
    outside = b.not_equal(b.imag(x), 0);
    x = b.real(x);
  }
  const auto least = static_cast<double>(Limits::lowest());
  const auto most = static_cast<double>(Limits::max());
  if (pjrt::is_floating(x.element())) {
    if (x.element() != graph::ElementType::kF64) x = b.convert(x, graph::ElementType::kF32);
    const Operand beyond = b.bit_not(b.bit_and(b.greater_equal(x, least), b.less_equal(x, most)));
    outside = b.bit_or(outside, Limits::has_infinity ? b.bit_and(beyond, b.is_finite(x)) : beyond);
  } else if (most < static_cast<double>(std::numeric_limits<int64_t>::max())) {
    x = b.convert(x, graph::ElementType::kS64);
    const Operand under = b.less(x, Limits::is_signed ? least : -most);  // unsigned ones may wrap
    outside = b.bit_or(outside, b.bit_or(under, b.greater(x, most)));
  }
  e.result(b.reshape(outside, {}));
}

}  // namespace

void check_fits(const c10::Scalar& value, c10::ScalarType dtype) {
  AT_DISPATCH_V2(dtype, "store a number", AT_WRAP([&] { (void)value.to<scalar_t>(); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                 AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16, at::kComplexHalf);
}

void check_element_fits(const at::Tensor& value, c10::ScalarType dtype) {
  if (value.scalar_type() == dtype) return;
#define CHECK_FOR(type, name)                                                     \
  case c10::ScalarType::name: {                                                   \
    static constexpr Operator op{"fill: value cannot be converted to type " #type \
                                 " without overflow",                             \
                                 emit_out_of_range<type>};                        \
    return check_never(op, value);                                                \
  }
  switch (dtype) {
    AT_FORALL_SCALAR_TYPES_AND2(Half, BFloat16, CHECK_FOR)
    default:
      return;
  }
#undef CHECK_FOR
}

}  // namespace torch_pjrt::aten
