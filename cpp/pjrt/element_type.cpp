#include "pjrt/element_type.h"

#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {
namespace {

#define TORCH_PJRT_SAME(ours, theirs) \
  static_assert(static_cast<int>(ElementType::ours) == PJRT_Buffer_Type_##theirs)
TORCH_PJRT_SAME(kInvalid, INVALID);
TORCH_PJRT_SAME(kPred, PRED);
TORCH_PJRT_SAME(kS8, S8);
TORCH_PJRT_SAME(kS16, S16);
TORCH_PJRT_SAME(kS32, S32);
TORCH_PJRT_SAME(kS64, S64);
TORCH_PJRT_SAME(kU8, U8);
TORCH_PJRT_SAME(kU16, U16);
TORCH_PJRT_SAME(kU32, U32);
TORCH_PJRT_SAME(kU64, U64);
TORCH_PJRT_SAME(kF16, F16);
TORCH_PJRT_SAME(kF32, F32);
TORCH_PJRT_SAME(kF64, F64);
TORCH_PJRT_SAME(kBF16, BF16);
TORCH_PJRT_SAME(kC64, C64);
TORCH_PJRT_SAME(kC128, C128);
TORCH_PJRT_SAME(kF8E5M2, F8E5M2);
TORCH_PJRT_SAME(kF8E4M3FN, F8E4M3FN);
TORCH_PJRT_SAME(kF8E4M3B11FNUZ, F8E4M3B11FNUZ);
TORCH_PJRT_SAME(kF8E5M2FNUZ, F8E5M2FNUZ);
TORCH_PJRT_SAME(kF8E4M3FNUZ, F8E4M3FNUZ);
TORCH_PJRT_SAME(kS4, S4);
TORCH_PJRT_SAME(kU4, U4);
TORCH_PJRT_SAME(kToken, TOKEN);
TORCH_PJRT_SAME(kS2, S2);
TORCH_PJRT_SAME(kU2, U2);
TORCH_PJRT_SAME(kF8E4M3, F8E4M3);
TORCH_PJRT_SAME(kF8E3M4, F8E3M4);
TORCH_PJRT_SAME(kF8E8M0FNU, F8E8M0FNU);
TORCH_PJRT_SAME(kF4E2M1FN, F4E2M1FN);
#undef TORCH_PJRT_SAME

enum class Kind : uint8_t { kNone, kPredicate, kSigned, kUnsigned, kFloat, kComplex };

struct Properties {
  int bits;
  Kind kind;
  std::string_view name;
};

constexpr Properties properties(ElementType type) noexcept {
  switch (type) {
    case ElementType::kPred:
      return {8, Kind::kPredicate, "i1"};
    case ElementType::kS2:
      return {2, Kind::kSigned, "i2"};
    case ElementType::kS4:
      return {4, Kind::kSigned, "i4"};
    case ElementType::kS8:
      return {8, Kind::kSigned, "i8"};
    case ElementType::kS16:
      return {16, Kind::kSigned, "i16"};
    case ElementType::kS32:
      return {32, Kind::kSigned, "i32"};
    case ElementType::kS64:
      return {64, Kind::kSigned, "i64"};
    case ElementType::kU2:
      return {2, Kind::kUnsigned, "ui2"};
    case ElementType::kU4:
      return {4, Kind::kUnsigned, "ui4"};
    case ElementType::kU8:
      return {8, Kind::kUnsigned, "ui8"};
    case ElementType::kU16:
      return {16, Kind::kUnsigned, "ui16"};
    case ElementType::kU32:
      return {32, Kind::kUnsigned, "ui32"};
    case ElementType::kU64:
      return {64, Kind::kUnsigned, "ui64"};
    case ElementType::kF4E2M1FN:
      return {4, Kind::kFloat, "f4E2M1FN"};
    case ElementType::kF8E3M4:
      return {8, Kind::kFloat, "f8E3M4"};
    case ElementType::kF8E4M3:
      return {8, Kind::kFloat, "f8E4M3"};
    case ElementType::kF8E4M3FN:
      return {8, Kind::kFloat, "f8E4M3FN"};
    case ElementType::kF8E4M3FNUZ:
      return {8, Kind::kFloat, "f8E4M3FNUZ"};
    case ElementType::kF8E4M3B11FNUZ:
      return {8, Kind::kFloat, "f8E4M3B11FNUZ"};
    case ElementType::kF8E5M2:
      return {8, Kind::kFloat, "f8E5M2"};
    case ElementType::kF8E5M2FNUZ:
      return {8, Kind::kFloat, "f8E5M2FNUZ"};
    case ElementType::kF8E8M0FNU:
      return {8, Kind::kFloat, "f8E8M0FNU"};
    case ElementType::kF16:
      return {16, Kind::kFloat, "f16"};
    case ElementType::kBF16:
      return {16, Kind::kFloat, "bf16"};
    case ElementType::kF32:
      return {32, Kind::kFloat, "f32"};
    case ElementType::kF64:
      return {64, Kind::kFloat, "f64"};
    case ElementType::kC64:
      return {64, Kind::kComplex, "complex<f32>"};
    case ElementType::kC128:
      return {128, Kind::kComplex, "complex<f64>"};
    case ElementType::kToken:
      return {0, Kind::kNone, "token"};
    case ElementType::kInvalid:
      break;
  }
  return {0, Kind::kNone, "invalid"};
}

}  // namespace

int bit_width(ElementType type) noexcept { return properties(type).bits; }
std::string_view name(ElementType type) noexcept { return properties(type).name; }

bool is_floating(ElementType type) noexcept { return properties(type).kind == Kind::kFloat; }
bool is_complex(ElementType type) noexcept { return properties(type).kind == Kind::kComplex; }
bool is_signed_integer(ElementType type) noexcept { return properties(type).kind == Kind::kSigned; }
bool is_unsigned_integer(ElementType type) noexcept {
  return properties(type).kind == Kind::kUnsigned;
}
bool is_integral(ElementType type) noexcept {
  return is_signed_integer(type) || is_unsigned_integer(type);
}

}  // namespace torch_pjrt::pjrt
