#include "aten/types.h"

#include <array>
#include <utility>

#include "aten/dtype_policy.h"

namespace torch_pjrt::aten {
namespace {

using c10::ScalarType;
using graph::ElementType;

constexpr std::array<std::pair<ScalarType, ElementType>, 21> kTypes{{
    {ScalarType::Bool, ElementType::kPred},
    {ScalarType::Byte, ElementType::kU8},
    {ScalarType::Char, ElementType::kS8},
    {ScalarType::Short, ElementType::kS16},
    {ScalarType::Int, ElementType::kS32},
    {ScalarType::Long, ElementType::kS64},
    {ScalarType::UInt16, ElementType::kU16},
    {ScalarType::UInt32, ElementType::kU32},
    {ScalarType::UInt64, ElementType::kU64},
    {ScalarType::Half, ElementType::kF16},
    {ScalarType::BFloat16, ElementType::kBF16},
    {ScalarType::Float, ElementType::kF32},
    {ScalarType::Double, ElementType::kF64},
    {ScalarType::ComplexFloat, ElementType::kC64},
    {ScalarType::ComplexDouble, ElementType::kC128},
    {ScalarType::Float8_e5m2, ElementType::kF8E5M2},
    {ScalarType::Float8_e4m3fn, ElementType::kF8E4M3FN},
    {ScalarType::Float8_e5m2fnuz, ElementType::kF8E5M2FNUZ},
    {ScalarType::Float8_e4m3fnuz, ElementType::kF8E4M3FNUZ},
    {ScalarType::Float8_e8m0fnu, ElementType::kF8E8M0FNU},
    {ScalarType::ComplexHalf, ElementType::kC64},
}};

constexpr size_t kScalarTypes = static_cast<size_t>(ScalarType::NumOptions);
constexpr std::array<ElementType, kScalarTypes + 1> kByScalarType = [] {
  std::array<ElementType, kScalarTypes + 1> table{};
  for (const auto& [scalar, element] : kTypes) table[static_cast<size_t>(scalar)] = element;
  return table;
}();

}  // namespace

graph::ElementType element_type(ScalarType dtype) {
  const ElementType element = kByScalarType[static_cast<size_t>(held_dtype(dtype))];
  TORCH_CHECK_TYPE(element != ElementType::kInvalid, "use dtype ", dtype,
                   " on device xla: PJRT arrays have no such element type; got ", dtype,
                   ", expected a floating, integer, complex or bool dtype; keep the tensor on cpu");
  return element;
}

ScalarType scalar_type(ElementType element) {
  for (const auto& [scalar, candidate] : kTypes) {
    if (candidate == element) return scalar;
  }
  TORCH_CHECK_TYPE(false, "take element type ", pjrt::name(element),
                   " as a PyTorch dtype: PyTorch has none for it; convert it in the program");
}

}  // namespace torch_pjrt::aten
