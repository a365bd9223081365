#include "pjrt/options.h"

#include <gtest/gtest.h>

#include "pjrt/error.h"

namespace torch_pjrt::pjrt {
namespace {

TEST(Options, ReadEveryKindOfValue) {
  const Options options = parse_options(
      "count=2; big=-9000000000;fraction=0.5;small=1e-3;on=true;off=false;list=[1, -2,3];none=[];"
      "name=TFRT_CPU;path=/a/b.so;quoted=\"a;b \\\"c\\\"\";number=\"12\";empty=;nan=nan;");
  const Options expected = {
      {"count", int64_t{2}},
      {"big", int64_t{-9000000000}},
      {"fraction", 0.5f},
      {"small", 1e-3f},
      {"on", true},
      {"off", false},
      {"list", std::vector<int64_t>{1, -2, 3}},
      {"none", std::vector<int64_t>{}},
      {"name", std::string("TFRT_CPU")},
      {"path", std::string("/a/b.so")},
      {"quoted", std::string("a;b \"c\"")},
      {"number", std::string("12")},
      {"empty", std::string()},
      {"nan", std::string("nan")},
  };
  EXPECT_EQ(options, expected) << to_text(options);
  EXPECT_EQ(parse_options(to_text(options)), options) << to_text(options);
}

TEST(Options, AreEmptyForEmptyText) {
  EXPECT_TRUE(parse_options("").empty());
  EXPECT_TRUE(parse_options(" ; ;").empty());
}

TEST(Options, AWholeFloatStaysAFloatInText) {
  EXPECT_EQ(to_text(OptionValue(2.0f)), "2.0");
  EXPECT_EQ(to_text(OptionValue(int64_t{2})), "2");
}

class BadOptions : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadOptions, AreRefusedByName) {
  const auto [text, expected] = GetParam();
  try {
    parse_options(text);
    FAIL() << "accepted " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, BadOptions,
                         testing::Values(std::pair("a=1;word", "'word' has no '='"),
                                         std::pair("=3", "'=3' has no key"),
                                         std::pair("a=1;a=2", "'a=2' sets its key a second time"),
                                         std::pair("a=[1,x]", "'a=[1,x]' has a list"),
                                         std::pair("a=\"b;c=1", "has a quote that does not end")));

TEST(NamedValues, CarryOptionsToTheApiAndBack) {
  const Options options = {{"a", true},
                           {"b", int64_t{-7}},
                           {"c", 1.25f},
                           {"d", std::string("text")},
                           {"e", std::vector<int64_t>{4, 5}}};
  const NamedValues values(options);
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(values.data()[0].struct_size, static_cast<size_t>(PJRT_NamedValue_STRUCT_SIZE));
  EXPECT_EQ(from_named_values(values.data(), values.size()), options);
}

}  // namespace
}  // namespace torch_pjrt::pjrt
