// Calls that fail on request, the list of functions, and errors of both kinds.
#include <cstring>
#include <sstream>

#include "chaos/chaos_test_support.h"
#include "pjrt/arrays.h"
#include "pjrt/programs.h"

namespace torch_pjrt {
namespace {

using pjrt::ErrorCode;

class ChaosFailures : public WithChaos {};
RUN_ON_EACH_PLUGIN(ChaosFailures);

TEST_P(ChaosFailures, FailsTheCallThatIsAskedForAndNoOther) {
  chaos().configure("fail=PJRT_Client_BufferFromHostBuffer:2:RESOURCE_EXHAUSTED");
  const pjrt::Buffer first = pjrt::put(client(), device(), {1, 2});
  try {
    pjrt::put(client(), device(), {3, 4});
    FAIL() << "the second call did not fail";
  } catch (const pjrt::Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_NE(std::strstr(error.what(), "call 2 of PJRT_Client_BufferFromHostBuffer"), nullptr)
        << error.what();
  }
  const pjrt::Buffer third = pjrt::put(client(), device(), {5, 6});
  EXPECT_EQ(pjrt::get(first), (std::vector<float>{1, 2}));
  EXPECT_EQ(pjrt::get(third), (std::vector<float>{5, 6}));
  EXPECT_EQ(chaos().count("failures"), 1);
  EXPECT_EQ(chaos().count("PJRT_Client_BufferFromHostBuffer"), 3);
}

TEST_P(ChaosFailures, FailsFromACallOnOrEveryCallOrAnyFunction) {
  const auto code = [&] { return code_of([&] { client().process_index(); }); };
  chaos().configure("fail=PJRT_Client_ProcessIndex:2+:ABORTED");
  EXPECT_EQ(code(), ErrorCode::kOk);
  EXPECT_EQ(code(), ErrorCode::kAborted);
  EXPECT_EQ(code(), ErrorCode::kAborted);
  chaos().configure("fail=PJRT_Client_ProcessIndex:*:DATA_LOSS");
  EXPECT_EQ(code(), ErrorCode::kDataLoss);
  chaos().configure("fail=*:2:NOT_FOUND");
  EXPECT_EQ(code(), ErrorCode::kOk);
  EXPECT_EQ(code(), ErrorCode::kNotFound);
  EXPECT_EQ(code(), ErrorCode::kOk);
}

TEST_P(ChaosFailures, DoesWhatOnlyGivesBackBeforeItReportsAFailure) {
  chaos().configure("fail=PJRT_Buffer_Destroy:*:UNAVAILABLE");
  const int64_t before = chaos().count("buffers_alive");
  {
    const pjrt::Buffer buffer = pjrt::put(client(), device(), {1});
  }
  EXPECT_EQ(chaos().count("failures"), 1);
  EXPECT_EQ(chaos().count("buffers_alive"), before);
}

TEST_P(ChaosFailures, TellsErrorsOfTheWrappedPluginAsTheyAre) {
  const auto text_of = [](const pjrt::Client& client) -> std::string {
    try {
      pjrt::compile(client, "no program");
    } catch (const pjrt::Error& error) {
      return error.what();  // the code is in it
    }
    return "";
  };
  EXPECT_NE(text_of(client()), "");
  EXPECT_EQ(text_of(client()), text_of(*pjrt::shared_client(GetParam())));
}

TEST_P(ChaosFailures, RefusesOptionsThatItCannotRead) {
  const auto configure = chaos().function<decltype(pjrt_chaos_configure)>("pjrt_chaos_configure");
  for (const char* text :
       {"nonsense", "fail=PJRT_Nothing:1:INTERNAL", "fail=PJRT_Client_Compile:1:BAD",
        "fail=PJRT_Client_Compile:x:INTERNAL", "delay_ms=-1", "order=sideways", "lacks=f7",
        "hide=PJRT_Nothing", "aliasing=maybe", "hide_extensions=Nothing", "last_function=x",
        "memory_kinds=device", "host_memory=perhaps"}) {
    const char* const problem = configure(text);
    ASSERT_NE(problem, nullptr) << text;
    EXPECT_NE(std::strstr(problem, "expected"), nullptr) << problem;
  }
}

TEST_P(ChaosFailures, WrapsEveryFunctionThatTheWrappedPluginHas) {
  const PJRT_Api* const ours = chaos().plugin().api();
  const PJRT_Api* const real = pjrt::Plugin::load(GetParam())->api();
  std::istringstream names(
      chaos().function<decltype(pjrt_chaos_functions)>("pjrt_chaos_functions")());
  size_t offset = offsetof(PJRT_Api, PJRT_Error_Destroy);
  for (std::string name; std::getline(names, name); offset += sizeof(void*)) {
    if (offset >= real->struct_size) break;
    void* mine = nullptr;
    void* theirs = nullptr;
    std::memcpy(&mine, reinterpret_cast<const char*>(ours) + offset, sizeof mine);
    std::memcpy(&theirs, reinterpret_cast<const char*>(real) + offset, sizeof theirs);
    EXPECT_EQ(mine != nullptr, theirs != nullptr) << name;
    if (theirs != nullptr) {
      EXPECT_NE(mine, theirs) << name;
    }
  }
  EXPECT_EQ(offset, std::min<size_t>(real->struct_size, PJRT_Api_STRUCT_SIZE));
}

TEST(ChaosStart, ReportsAPluginThatIsNotThereOrOptionsThatAreWrong) {
  const ChaosLibrary absent;
  setenv("PJRT_CHAOS_PLUGIN", "/nowhere/plugin.so", 1);
  unsetenv("PJRT_CHAOS_OPTIONS");
  EXPECT_EQ(code_of([&] { pjrt::Plugin::load(absent.path()); }), ErrorCode::kNotFound);

  const ChaosLibrary unnamed;
  unsetenv("PJRT_CHAOS_PLUGIN");
  EXPECT_EQ(code_of([&] { pjrt::Plugin::load(unnamed.path()); }), ErrorCode::kNotFound);

  const ChaosLibrary wrong;
  setenv("PJRT_CHAOS_PLUGIN", pjrt::test_plugins().front().c_str(), 1);
  setenv("PJRT_CHAOS_OPTIONS", "no=option", 1);
  EXPECT_EQ(code_of([&] { pjrt::Plugin::load(wrong.path()); }), ErrorCode::kInvalidArgument);
  unsetenv("PJRT_CHAOS_OPTIONS");
}

}  // namespace
}  // namespace torch_pjrt
