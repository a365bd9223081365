#include "dlpack/data_type.h"

#include <array>
#include <string>

#include "pjrt/error.h"

namespace torch_pjrt::dlpack {
namespace {

using pjrt::ElementType;

struct Pair {
  ElementType element;
  uint8_t code;
  uint8_t bits;
};

constexpr std::array<Pair, 23> kTypes{{
    {ElementType::kPred, kDLBool, 8},
    {ElementType::kS8, kDLInt, 8},
    {ElementType::kS16, kDLInt, 16},
    {ElementType::kS32, kDLInt, 32},
    {ElementType::kS64, kDLInt, 64},
    {ElementType::kU8, kDLUInt, 8},
    {ElementType::kU16, kDLUInt, 16},
    {ElementType::kU32, kDLUInt, 32},
    {ElementType::kU64, kDLUInt, 64},
    {ElementType::kF16, kDLFloat, 16},
    {ElementType::kF32, kDLFloat, 32},
    {ElementType::kF64, kDLFloat, 64},
    {ElementType::kBF16, kDLBfloat, 16},
    {ElementType::kC64, kDLComplex, 64},
    {ElementType::kC128, kDLComplex, 128},
    {ElementType::kF8E3M4, kDLFloat8_e3m4, 8},
    {ElementType::kF8E4M3, kDLFloat8_e4m3, 8},
    {ElementType::kF8E4M3B11FNUZ, kDLFloat8_e4m3b11fnuz, 8},
    {ElementType::kF8E4M3FN, kDLFloat8_e4m3fn, 8},
    {ElementType::kF8E4M3FNUZ, kDLFloat8_e4m3fnuz, 8},
    {ElementType::kF8E5M2, kDLFloat8_e5m2, 8},
    {ElementType::kF8E5M2FNUZ, kDLFloat8_e5m2fnuz, 8},
    {ElementType::kF8E8M0FNU, kDLFloat8_e8m0fnu, 8},
}};

}  // namespace

DLDataType data_type(ElementType type) {
  for (const Pair& pair : kTypes) {
    if (pair.element == type) return {pair.code, pair.bits, 1};
  }
  throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "export an array by DLPack",
                    "DLPack has no type for its elements; got " + std::string(pjrt::name(type)) +
                        ", expected a type of whole bytes; convert it first");
}

ElementType element_type(DLDataType type) {
  for (const Pair& pair : kTypes) {
    if (pair.code == type.code && pair.bits == type.bits && type.lanes == 1) return pair.element;
  }
  throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "import an array by DLPack",
                    "no device array has such elements; got DLPack type code " +
                        std::to_string(type.code) + " with " + std::to_string(type.bits) +
                        " bits and " + std::to_string(type.lanes) +
                        " lanes, expected a number type of whole bytes; convert it first");
}

}  // namespace torch_pjrt::dlpack
