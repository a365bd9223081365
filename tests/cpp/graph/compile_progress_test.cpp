#include "graph/compile_progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace torch_pjrt::graph {
namespace {

using namespace std::chrono_literals;

std::string told_in(std::chrono::milliseconds compilation, bool shown) {
  CompileProgress::set_shown(shown);
  testing::internal::CaptureStderr();
  {
    const CompileProgress progress(7);
    std::this_thread::sleep_for(compilation);
  }
  CompileProgress::set_shown(false);
  return testing::internal::GetCapturedStderr();
}

TEST(CompileProgress, TellsOfALongCompilationAndItsEnd) {
  const std::string told = told_in(2300ms, true);
  EXPECT_NE(told.find("compiling a program of 7 operations"), std::string::npos) << told;
  EXPECT_NE(told.find("compiled it in 2."), std::string::npos) << told;
}

TEST(CompileProgress, SaysNothingOfAShortOneOrWhenItIsOff) {
  EXPECT_EQ(told_in(10ms, true), "");
  EXPECT_EQ(told_in(2300ms, false), "");
}

}  // namespace
}  // namespace torch_pjrt::graph
