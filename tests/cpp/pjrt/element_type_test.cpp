#include "pjrt/element_type.h"

#include <gtest/gtest.h>

namespace torch_pjrt::pjrt {
namespace {

TEST(ElementType, EachIsOfExactlyOneKind) {
  for (int value = static_cast<int>(ElementType::kPred);
       value <= static_cast<int>(ElementType::kF4E2M1FN); ++value) {
    const auto type = static_cast<ElementType>(value);
    const int kinds = is_floating(type) + is_complex(type) + is_integral(type) +
                      (type == ElementType::kPred) + (type == ElementType::kToken);
    EXPECT_EQ(kinds, 1) << name(type);
    EXPECT_NE(name(type), "invalid");
    if (is_integral(type)) {
      EXPECT_EQ(name(type),
                (is_unsigned_integer(type) ? "ui" : "i") + std::to_string(bit_width(type)));
    }
  }
}

TEST(ElementType, WidthsAreThoseOfHostElements) {
  EXPECT_EQ(bit_width(ElementType::kPred), 8);
  EXPECT_EQ(bit_width(ElementType::kBF16), 16);
  EXPECT_EQ(bit_width(ElementType::kC128), 128);
  EXPECT_EQ(bit_width(ElementType::kU2), 2);
  EXPECT_EQ(bit_width(ElementType::kInvalid), 0);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
