#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace torch_pjrt::base {
namespace {

constexpr const char* kName = "TORCH_PJRT_TEST_NUMBER";

std::optional<uint64_t> number_in(const char* text) {
  setenv(kName, text, 1);
  const auto number = environment_number(kName, 2, 1000);
  unsetenv(kName);
  return number;
}

TEST(EnvironmentNumber, IsTheWholeNumberThatTheVariableHolds) {
  EXPECT_EQ(number_in("2"), 2u);
  EXPECT_EQ(number_in("1000"), 1000u);
}

TEST(EnvironmentNumber, IsEmptyForAnythingElse) {
  EXPECT_EQ(environment_number(kName, 0, 10), std::nullopt);
  for (const char* text :
       {"", "abc", "12abc", " 12", "-3", "1.5", "1", "1001", "99999999999999999999999999"}) {
    EXPECT_EQ(number_in(text), std::nullopt) << '"' << text << '"';
  }
}

}  // namespace
}  // namespace torch_pjrt::base
