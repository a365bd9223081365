#include "pjrt/foreign_function.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "arrays.h"
#include "on_each_plugin.h"
#include "pjrt/executable.h"
#include "programs.h"

namespace torch_pjrt::pjrt {
namespace {

class ForeignFunctions : public OnEachPlugin {
 protected:
  static std::string program(std::string_view target, std::string_view options) {
    return "module @call { func.func public @main(%a: tensor<16xf32>) -> tensor<16xf32> {\n"
           "%0 = \"stablehlo.custom_call\"(%a) {call_target_name = \"" +
           std::string(target) + "\", api_version = 4 : i32, backend_config = {" +
           std::string(options) +
           "}} : (tensor<16xf32>) -> tensor<16xf32>\n"
           "return %0 : tensor<16xf32> } }";
  }
  static Buffer run(const LoadedExecutable& program, const Buffer& argument) {
    PJRT_Buffer* const arguments[] = {argument.get()};
    std::vector<Buffer> outputs;
    program.execute(arguments, {}, outputs);
    return std::move(outputs.at(0));
  }
};

// x + options[0] + options[1]
void add_options(const ForeignCall& call) {
  if (call.options.size() != 2) throw std::invalid_argument("two options are needed");
  if (call.arguments.size() != 1 || call.results.size() != 1 ||
      call.arguments[0].element != ElementType::kF32 || call.arguments[0].dimensions.size() != 1) {
    throw std::invalid_argument("one vector of f32 is needed");
  }
  const auto* from = static_cast<const float*>(call.arguments[0].data);
  auto* to = static_cast<float*>(call.results[0].data);
  for (int64_t i = 0; i < call.results[0].dimensions[0]; ++i) {
    to[i] = from[i] + static_cast<float>(call.options[0] + call.options[1]);
  }
}
constexpr ForeignFunction kAddOptions = foreign_function<add_options>("test.add_options");

TEST_P(ForeignFunctions, AreCalledByPrograms) {
  ASSERT_TRUE(calls_host_functions(client()));
  provide(client(), kAddOptions);
  provide(client(), kAddOptions);  // again: nothing
  const auto executable =
      compile(client(), program(kAddOptions.name, "options = array<i64: 30, -20>"));
  const Buffer input = put(client(), device(), std::vector<float>(16, 1.5f));
  EXPECT_EQ(get(run(executable, input)), std::vector<float>(16, 11.5f));
}

TEST_P(ForeignFunctions, AreCalledByProgramsThatWereLoaded) {
  provide(client(), kAddOptions);
  const std::string bytes =
      compile(client(), program(kAddOptions.name, "options = array<i64: 1, 1>")).serialize();
  const LoadedExecutable loaded = client().deserialize(bytes);
  const Buffer input = put(client(), device(), std::vector<float>(16, 1.f));
  EXPECT_EQ(get(run(loaded, input)), std::vector<float>(16, 3.f));
}

TEST_P(ForeignFunctions, MakeWhatTheyThrowTheErrorOfTheExecution) {
  provide(client(), kAddOptions);
  const auto executable = compile(client(), program(kAddOptions.name, "options = array<i64: 1>"));
  const Buffer input = put(client(), device(), std::vector<float>(16, 1.f));
  try {
    get(run(executable, input));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("two options are needed"), std::string::npos)
        << error.what();
  }
}

TEST_P(ForeignFunctions, ThatNobodyProvidedAreRefused) {
  EXPECT_THROW(
      {
        const auto executable = compile(client(), program("test.unknown", ""));
        get(run(executable, put(client(), device(), std::vector<float>(16, 1.f))));
      },
      Error);
}

RUN_ON_EACH_PLUGIN(ForeignFunctions);

}  // namespace
}  // namespace torch_pjrt::pjrt
