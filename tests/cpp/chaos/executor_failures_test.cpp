// What the executor does when the plugin fails: once, always, or while checks are read.
#include "base/metrics.h"
#include "chaos/chaos_test_support.h"
#include "graph/executor_test_support.h"

namespace torch_pjrt::graph {
namespace {

constexpr Operator kTwice{
    "test::twice", [](Emission& e) { e.result(e.builder().add(e.operand(0), e.operand(0))); }};
constexpr Operator kSame{"test::same", [](Emission& e) { e.result(e.operand(0)); }};

class ChaosExecutor : public WithChaos {
 protected:
  std::unique_ptr<Cell> cell(TestDevice& on, Value value) {
    auto made = std::make_unique<Cell>(on.executor);
    made->set(std::move(value));
    return made;
  }
  std::string error_of(TestDevice& device, const Value& value) {
    try {
      device.read_floats(value);
    } catch (const pjrt::Error& error) {
      return error.what();
    }
    return "";
  }
  std::string late_error(TestDevice& device) {
    try {
      device.executor.synchronize();
    } catch (const pjrt::Error& error) {
      return error.what();
    }
    return "";
  }
};
RUN_ON_EACH_PLUGIN(ChaosExecutor);

TEST_P(ChaosExecutor, TriesALaunchThatFailsOnceMoreAndTellsOfIt) {
  TestDevice d(client());
  const Growth recovered("execute.recovered"), failures("execute.failures");
  const Growth programs("compile.programs");
  const auto x = cell(d, record(kTwice, {d.floats({1, 2})}));
  chaos().configure("fail=PJRT_LoadedExecutable_Execute:1:INTERNAL");
  EXPECT_NE(late_error(d).find("INTERNAL: chaos: call 1 of PJRT_LoadedExecutable_Execute"),
            std::string::npos);
  EXPECT_EQ(d.read_floats(x->get()), (std::vector<float>{2, 4}));
  EXPECT_EQ(late_error(d), "") << "told once";
  EXPECT_EQ(chaos().count("failures"), 1);
  EXPECT_EQ(recovered(), 1);
  EXPECT_EQ(failures(), 0);
  EXPECT_EQ(programs(), 1);
}

TEST_P(ChaosExecutor, LooksForNoCauseInTheProgramWhenTheDeviceIsGone) {
  TestDevice d(client());
  const Growth failures("execute.failures"), programs("compile.programs");
  const Value input = d.floats({1, 2});
  const auto x = cell(d, record(kTwice, {input}));
  const auto y = cell(d, record(kTwice, {x->get()}));
  chaos().configure("fail=PJRT_LoadedExecutable_Execute:*:UNAVAILABLE");
  d.executor.execute();
  chaos().configure("");
  for (const auto& failed : {x->get(), y->get()}) {
    EXPECT_NE(error_of(d, failed).find("UNAVAILABLE: chaos: call"), std::string::npos);
  }
  EXPECT_EQ(failures(), 1);
  EXPECT_EQ(programs(), 1);
  const auto z = cell(d, record(kTwice, {input}));
  EXPECT_EQ(d.read_floats(z->get()), (std::vector<float>{2, 4}));
}

TEST_P(ChaosExecutor, ComputesInPartsWhatDidNotCompileOnceAndTellsOfIt) {
  TestDevice d(client());
  const Growth recovered("execute.recovered");
  const Value input = d.floats({1, 2});
  const auto x = cell(d, record(kTwice, {input}));
  const auto y = cell(d, record(kTwice, {x->get()}));
  chaos().configure("fail=PJRT_Client_Compile:1:INTERNAL");
  EXPECT_EQ(d.read_floats(y->get()), (std::vector<float>{4, 8}));
  EXPECT_EQ(d.read_floats(x->get()), (std::vector<float>{2, 4}));
  EXPECT_EQ(recovered(), 1);
  EXPECT_NE(late_error(d).find("INTERNAL: chaos: call 1 of PJRT_Client_Compile"),
            std::string::npos);
  EXPECT_EQ(late_error(d), "") << "told once";
}

TEST_P(ChaosExecutor, ForgetsNoCheckThatCouldNotBeRead) {
  TestDevice d(client());
  d.executor.add_check({record(kSame, {d.upload<uint8_t>(ElementType::kPred, {1}, {})}), &kTwice});
  d.executor.execute();
  d.read_floats(d.floats({1}));  // by now it is known how the host reads
  chaos().configure(
      "fail=PJRT_Buffer_ElementType:1:DATA_LOSS,"
      "PJRT_Buffer_OpaqueDeviceMemoryDataPointer:1:DATA_LOSS");
  EXPECT_EQ(code_of([&] { d.executor.synchronize(); }), pjrt::ErrorCode::kDataLoss);
  chaos().configure("");
  EXPECT_THROW(d.executor.synchronize(), CheckError);
  d.executor.synchronize();
}

}  // namespace
}  // namespace torch_pjrt::graph
