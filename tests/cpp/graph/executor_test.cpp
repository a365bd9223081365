#include "graph/executor.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "graph/executor_test_support.h"

namespace torch_pjrt::graph {
namespace {

using enum pjrt::ElementType;

class ExecutorTest : public transfer::OnEachPlugin {
 protected:
  void TearDown() override {
    Executor::set_mode(Mode::kLazy);
    Executor::set_donate(true);
    Executor::set_limit(10000);
  }

  // A cell that holds `value`, as a tensor's storage does.
  std::unique_ptr<Cell> cell(TestDevice& on, Value value) {
    auto made = std::make_unique<Cell>(on.executor);
    made->set(std::move(value));
    return made;
  }
};
ON_EACH_PLUGIN(ExecutorTest);

constexpr Operator kNot{"test::not",
                        [](Emission& e) { e.result(e.builder().bit_not(e.operand(0))); }};

std::string error_of(TestDevice& device, const Value& value) {
  try {
    device.executor.buffer(value);
  } catch (const pjrt::Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(ExecutorTest, ComputesAllThatIsPendingAtOnce) {
  TestDevice d(client());
  const Growth calls("execute.calls");
  const auto a = cell(d, record(kNegate, {d.floats({1, -2})}));
  const auto b = cell(d, record(kAddNumber, {a->get(), real_number(0.5)}));
  EXPECT_EQ(d.read_floats(b->get()), (std::vector<float>{-0.5, 2.5}));
  EXPECT_EQ(d.read_floats(a->get()), (std::vector<float>{-1, 2}));
  EXPECT_EQ(calls(), 1);
}

TEST_P(ExecutorTest, AnErrorStaysWithItsDependents) {
  TestDevice d(client());
  const Value x = d.floats({1, 2});
  const auto sound = cell(d, record(kNegate, {x}));
  const auto refused = cell(d, record(kRefused, {x}));
  const auto dependent = cell(d, record(kAdd, {refused->get(), x}));
  const NodePtr two = record_two(kRefused, x);
  const auto first = cell(d, {two, 0}), second = cell(d, {two, 1});
  const auto other = cell(d, record(kAdd, {sound->get(), x}));
  d.executor.execute();
  EXPECT_EQ(d.read_floats(sound->get()), (std::vector<float>{-1, -2}));
  EXPECT_EQ(d.read_floats(other->get()), (std::vector<float>{0, 0}));
  for (const Cell* failed : {refused.get(), dependent.get(), first.get(), second.get()}) {
    EXPECT_NE(error_of(d, failed->get()).find("test::refused"), std::string::npos);
  }
  EXPECT_NE(error_of(d, record(kNegate, {dependent->get()})), "") << "recorded afterwards";
  const auto later = cell(d, record(kNegate, {other->get()}));
  EXPECT_EQ(d.read_floats(later->get()), (std::vector<float>{0, 0}));
  refused->set(record(kNegate, {x}));
  EXPECT_EQ(d.read_floats(refused->get()), (std::vector<float>{-1, -2})) << "rewritten";
}

TEST_P(ExecutorTest, AnExecutionThatCannotBeLaunchedFailsOnlyWhatReadsItsCause) {
  TestDevice d(client());
  Value gone = d.floats({1, 2});
  gone.node->outputs()[0].buffer->buffer.delete_now();
  const auto failed = cell(d, record(kNegate, {gone}));
  const auto sound = cell(d, record(kAddNumber, {d.floats({1, 2}), real_number(1)}));
  d.executor.execute();
  EXPECT_NE(error_of(d, failed->get()), "");
  EXPECT_EQ(d.read_floats(sound->get()), (std::vector<float>{2, 3}));
}

TEST_P(ExecutorTest, DonatesDeadInputs) {
  TestDevice d(client());
  const Growth bytes("execute.donated_bytes");
  const auto x = cell(d, d.floats(std::vector<float>(1000, 1)));
  x->set(record(kNegate, {x->get()}));
  d.executor.execute();
  EXPECT_EQ(bytes(), 4000);
  const Value kept = x->get();
  x->set(record(kNegate, {kept}));
  d.executor.execute();
  EXPECT_EQ(bytes(), 4000) << "`kept` is still to be read";
  EXPECT_EQ(d.read_floats(kept)[999], -1);
  Executor::set_donate(false);
  x->set(record(kNegate, {x->get()}));
  d.executor.execute();
  EXPECT_EQ(bytes(), 4000);
  EXPECT_EQ(d.read_floats(x->get())[0], -1);
}

TEST_P(ExecutorTest, AStateThatStartsAtZeroHasOneProgramForAllSteps) {
  static constexpr Operator zeros{
      "test::zeros", [](Emission& e) { e.result(e.builder().filled(e.result_type(), 0)); }};
  TestDevice d(client());
  const Growth programs("compile.programs");
  const Value gradient = d.floats({1, 2});
  std::vector<std::unique_ptr<Cell>> states;
  auto step = [&] {
    for (const auto& state : states) state->set(record(kAdd, {state->get(), gradient}));
    d.executor.execute();
  };
  for (int i = 0; i < 10; ++i) states.push_back(cell(d, record(zeros, {}, gradient.type())));
  step();
  EXPECT_EQ(programs(), 2) << "the zeros and the step";
  step();
  step();
  EXPECT_EQ(programs(), 2);
  for (const auto& state : states) {
    EXPECT_EQ(d.read_floats(state->get()), (std::vector<float>{3, 6}));
  }
}

TEST_P(ExecutorTest, KeepsTheInputsOfWhatMayBeComputedAgain) {
  TestDevice d(client());
  const Value intermediate = record(kNegate, {d.floats({1, 2})});
  const auto y = cell(d, record(kAddNumber, {intermediate, real_number(1)}));
  d.executor.execute();
  EXPECT_EQ(d.read_floats(intermediate), (std::vector<float>{-1, -2}));
  EXPECT_EQ(d.read_floats(y->get()), (std::vector<float>{0, -1}));
}

TEST_P(ExecutorTest, RaisesAFailedCheckOnce) {
  TestDevice d(client());
  const Value truth = d.upload<uint8_t>(kPred, {1}, Dimensions{});
  Value scalar{Node::data(truth.node->outputs()[0].buffer, truth.type()), 0};
  d.executor.add_check({record(kNot, {d.upload<uint8_t>(kPred, {0}, {})}, Type{kPred, {}}), &kAdd});
  try {
    d.executor.synchronize();
    FAIL() << "the check failed";
  } catch (const CheckError& error) {
    EXPECT_NE(std::string(error.what()).find("test::add"), std::string::npos);
  }
  d.executor.synchronize();
}

TEST_P(ExecutorTest, AFailedProgramsCheckIsNotRaisedElsewhere) {
  TestDevice d(client());
  const Value x = d.floats({1});
  d.executor.add_check({record(kRefused, {x}, Type{kPred, {}}), &kAdd});
  const auto y = cell(d, record(kNegate, {x}));
  EXPECT_EQ(d.read_floats(y->get()), std::vector<float>{-1});
  d.executor.synchronize();
}

TEST_P(ExecutorTest, EagerAndDebugComputeAtOnce) {
  TestDevice d(client());
  for (Mode mode : {Mode::kEager, Mode::kDebug}) {
    Executor::set_mode(mode);
    const auto y = cell(d, record(kNegate, {d.floats({1, 2})}));
    EXPECT_FALSE(y->get().node->is_data());
    d.executor.recorded(*y->get().node);
    EXPECT_TRUE(y->get().node->is_data());
    EXPECT_EQ(d.read_floats(y->get()), (std::vector<float>{-1, -2}));
  }
  const auto refused = cell(d, record(kRefused, {d.floats({1})}));
  EXPECT_THROW(d.executor.recorded(*refused->get().node), pjrt::Error) << "debug mode raises";
  Executor::set_mode(Mode::kEager);
  refused->set(record(kRefused, {d.floats({1})}));
  EXPECT_NO_THROW(d.executor.recorded(*refused->get().node));
}

TEST_P(ExecutorTest, ALoopWithoutAReadCompilesFewPrograms) {
  if (GetParam() != transfer::plugin_paths().front()) {
    return;  // where to cut does not depend on the plugin
  }
  TestDevice d(client());
  Executor::set_limit(200);
  const Growth programs("compile.programs"), cuts("execute.limit_cuts");
  const auto x = cell(d, d.floats({0}));
  size_t recorded = 0;
  while (recorded < 100 * 200) {
    for (int i = 0; i < 70; ++i, ++recorded) {
      const Value value =
          i % 10 == 0 ? record(kAddNumber, {x->get(), real_number(1)})
                      : record(i % 2 ? kNegate : kAdd,
                               i % 2 ? std::vector{x->get()} : std::vector{x->get(), x->get()});
      const NodePtr node = value.node;
      x->set(value);
      d.executor.recorded(*node);
    }
  }
  EXPECT_GE(cuts(), 50);
  EXPECT_LE(programs(), 3);
}

TEST_P(ExecutorTest, TwoThreadsRecordWhileAThirdExecutes) {
  TestDevice d(client());
  constexpr int kSteps = 200;
  const auto a = cell(d, d.floats({0, 0})), b = cell(d, d.floats({0, 0}));
  std::atomic<int> recording{2};
  auto recorder = [&](Cell& own) {
    for (int i = 0; i < kSteps; ++i) {
      const Value value = record(kAddNumber, {own.get(), real_number(1)});
      own.set(value);
      d.executor.recorded(*value.node);
      std::this_thread::yield();
    }
    --recording;
  };
  std::thread first([&] { recorder(*a); }), second([&] { recorder(*b); });
  for (int i = 0; i < 12 && recording > 0; ++i) {
    d.executor.execute();
    const std::vector<float> seen = d.read_floats(a->get());
    EXPECT_EQ(seen[0], seen[1]);
  }
  first.join();
  second.join();
  EXPECT_EQ(d.read_floats(a->get()), (std::vector<float>{kSteps, kSteps}));
  EXPECT_EQ(d.read_floats(b->get()), (std::vector<float>{kSteps, kSteps}));
}

TEST_P(ExecutorTest, NoWriteOfTwoThreadsToOneCellIsLost) {
  TestDevice d(client());
  constexpr int kSteps = 100;
  const auto shared = cell(d, d.floats({0}));
  auto writer = [&] {
    for (int i = 0; i < kSteps; ++i) {
      for (bool is_set = false; !is_set;) {
        const Value old = shared->get();
        is_set = shared->set_if(old, record(kAddNumber, {old, real_number(1)}));
      }
    }
  };
  std::thread first(writer), second(writer);
  first.join();
  second.join();
  EXPECT_EQ(d.read_floats(shared->get()), std::vector<float>{2 * kSteps});
}

TEST_P(ExecutorTest, ReleasesADeepGraphThatIsNeverExecuted) {
  TestDevice d(client());
  const auto x = cell(d, d.floats({0}));
  for (int i = 0; i < 30000; ++i) x->set(record(kNegate, {x->get()}));
  x->set(d.floats({7}));
  EXPECT_EQ(d.read_floats(x->get()), std::vector<float>{7});
}

}  // namespace
}  // namespace torch_pjrt::graph
