#include <gtest/gtest.h>

#include "arrays.h"
#include "on_each_plugin.h"
#include "pjrt/executable.h"
#include "programs.h"

namespace torch_pjrt::pjrt {
namespace {

class Execution : public OnEachPlugin {
 protected:
  static std::vector<Buffer> run(const LoadedExecutable& program, const Buffer& argument,
                                 const ExecuteOptions& options = {}) {
    PJRT_Buffer* const arguments[] = {argument.get()};
    std::vector<Buffer> outputs;
    program.execute(arguments, options, outputs);
    return outputs;
  }
};

TEST_P(Execution, Computes) {
  const LoadedExecutable program = compile(client(), kDouble);
  EXPECT_EQ(program.num_outputs(), 1u);
  EXPECT_FALSE(program.is_deleted());
  EXPECT_EQ(program.name(), "twice");
  EXPECT_EQ(program.output_types(), std::vector<ElementType>{ElementType::kF32});
  EXPECT_EQ(program.output_dimensions(), (std::vector<std::vector<int64_t>>{{16}}));
  EXPECT_NO_THROW(program.generated_code_bytes());
  EXPECT_NO_THROW(program.fingerprint());

  const Buffer input = put(client(), device(), std::vector<float>(16, 1.5f));
  PJRT_Buffer* const arguments[] = {input.get()};
  std::vector<Buffer> outputs;
  Event complete;
  ExecuteOptions options;
  options.may_block = true;
  options.call_location = "test.py:1";
  program.execute(arguments, options, outputs, &complete);
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(get(outputs[0]), std::vector<float>(16, 3.f));
  ASSERT_TRUE(complete);
  complete.await();
  EXPECT_FALSE(input.is_deleted());
}

TEST_P(Execution, ReturnsSeveralOutputsOfSeveralShapes) {
  const LoadedExecutable program = compile(client(), R"(module @several {
    func.func public @main(%a: tensor<16xf32>) -> (tensor<4x4xf32>, tensor<i64>, tensor<0xi1>) {
      %0 = stablehlo.reshape %a : (tensor<16xf32>) -> tensor<4x4xf32>
      %1 = stablehlo.constant dense<7> : tensor<i64>
      %2 = stablehlo.constant dense<> : tensor<0xi1>
      return %0, %1, %2 : tensor<4x4xf32>, tensor<i64>, tensor<0xi1>
    }
  })");
  EXPECT_EQ(program.output_types(),
            (std::vector<ElementType>{ElementType::kF32, ElementType::kS64, ElementType::kPred}));
  EXPECT_EQ(program.output_dimensions(), (std::vector<std::vector<int64_t>>{{4, 4}, {}, {0}}));
  const auto outputs = run(program, put(client(), device(), std::vector<float>(16, 1.f)));
  ASSERT_EQ(outputs.size(), 3u);
  int64_t seven = 0;
  outputs[1].copy_to_host(&seven, sizeof seven).await();
  EXPECT_EQ(seven, 7);
}

TEST_P(Execution, ADonatedArgumentIsDeletedAndItsMemoryUsed) {
  const LoadedExecutable program = compile(client(), kDoubleInPlace);
  const Buffer input = put(client(), device(), std::vector<float>(16, 2.f));
  const void* memory = input.device_pointer();
  const auto outputs = run(program, input);
  EXPECT_EQ(get(outputs[0]), std::vector<float>(16, 4.f));
  EXPECT_TRUE(input.is_deleted());
  EXPECT_EQ(outputs[0].device_pointer(), memory);
}

TEST_P(Execution, ANonDonatableArgumentStays) {
  const LoadedExecutable program = compile(client(), kDoubleInPlace);
  const Buffer input = put(client(), device(), std::vector<float>(16, 2.f));
  const int64_t kept[] = {0};
  ExecuteOptions options;
  options.non_donatable = kept;
  const auto outputs = run(program, input, options);
  EXPECT_EQ(get(outputs[0]), std::vector<float>(16, 4.f));
  EXPECT_FALSE(input.is_deleted());
  EXPECT_EQ(get(input), std::vector<float>(16, 2.f));
}

TEST_P(Execution, APortableProgramRunsWhereItIsTold) {
  const Client& two = client(2);
  CompileOptions options;
  options.portable = true;
  const LoadedExecutable program = compile(two, kDouble, options);
  for (const Device where : two.addressable_devices()) {
    ExecuteOptions there;
    there.device = where;
    const auto outputs = run(program, put(two, where, std::vector<float>(16, 5.f)), there);
    EXPECT_EQ(outputs[0].device(), where);
    EXPECT_EQ(get(outputs[0]), std::vector<float>(16, 10.f));
  }
}

TEST_P(Execution, ABadProgramIsRefusedWithTheCompilersWords) {
  try {
    compile(client(), "module { func.func public @main() -> tensor<f32> { return %x } }");
    FAIL() << "compiled nonsense";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("compile a program: "), 0u) << error.what();
    EXPECT_GT(std::string(error.what()).size(), 40u);
  }
}

TEST_P(Execution, WrongArgumentsAreAnErrorAndLaterWorkIsRight) {
  const LoadedExecutable program = compile(client(), kDouble);
  std::vector<Buffer> outputs;
  EXPECT_THROW(program.execute({}, {}, outputs), Error);
  EXPECT_TRUE(outputs.empty());
  EXPECT_THROW(
      {
        outputs = run(program, put(client(), device(), std::vector<float>(8, 1.f)));
        outputs.at(0).ready_event().await();
      },
      Error);
  outputs = run(program, put(client(), device(), std::vector<float>(16, 1.f)));
  EXPECT_EQ(get(outputs.at(0)), std::vector<float>(16, 2.f));
}

TEST_P(Execution, ASerializedProgramRunsAgain) {
  const LoadedExecutable program = compile(client(), kDouble);
  std::string bytes;
  try {
    bytes = program.serialize();
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kUnimplemented) << error.what();
    GTEST_SKIP() << error.what();
  }
  const LoadedExecutable again = client().deserialize(bytes);
  EXPECT_EQ(again.num_outputs(), 1u);
  const auto outputs = run(again, put(client(), device(), std::vector<float>(16, 1.f)));
  EXPECT_EQ(get(outputs.at(0)), std::vector<float>(16, 2.f));
  EXPECT_THROW(client().deserialize("not a program"), Error);
}

TEST_P(Execution, TellsItsCosts) {
  const LoadedExecutable program = compile(client(), kDouble);
  const Options costs = program.cost_analysis();
  EXPECT_TRUE(costs.empty() || costs.count("flops") == 1) << to_text(costs);
  const auto stats = program.memory_stats();
  EXPECT_TRUE(!stats || stats->arguments >= 64);
}

RUN_ON_EACH_PLUGIN(Execution);

}  // namespace
}  // namespace torch_pjrt::pjrt
