#pragma once

#include <cstdint>
#include <string_view>

namespace torch_pjrt::pjrt {

// Element types of device arrays. The values are those of PJRT_Buffer_Type in pjrt_c_api.h
// (element_type.cpp asserts it), so that a cast converts.
enum class ElementType : uint8_t {
  kInvalid = 0,
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kF32,
  kF64,
  kBF16,
  kC64,
  kC128,
  kF8E5M2,
  kF8E4M3FN,
  kF8E4M3B11FNUZ,
  kF8E5M2FNUZ,
  kF8E4M3FNUZ,
  kS4,
  kU4,
  kToken,
  kS2,
  kU2,
  kF8E4M3,
  kF8E3M4,
  kF8E8M0FNU,
  kF4E2M1FN,
};

// Bits of one element in a host buffer; a predicate takes 8.
int bit_width(ElementType type) noexcept;

// The StableHLO spelling: i1, i8, ui32, f32, bf16, complex<f32>, f8E4M3FN...
std::string_view name(ElementType type) noexcept;

bool is_floating(ElementType type) noexcept;          // f16, bf16, f32, f64, every f8 and f4
bool is_complex(ElementType type) noexcept;           // complex<f32>, complex<f64>
bool is_signed_integer(ElementType type) noexcept;    // i2 to i64, not i1
bool is_unsigned_integer(ElementType type) noexcept;  // ui2 to ui64, not i1
bool is_integral(ElementType type) noexcept;          // both, not i1

}  // namespace torch_pjrt::pjrt
