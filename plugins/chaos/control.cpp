// The functions of chaos.h.
#include <string>

#include "chaos.h"
#include "counts.h"
#include "functions.h"
#include "options.h"
#include "table.h"

#define CHAOS_EXPORT __attribute__((visibility("default")))

using namespace pjrt_chaos;

extern "C" CHAOS_EXPORT const char* pjrt_chaos_configure(const char* text) {
  thread_local std::string problem;
  table();
  Options options;
  options.plugin = pjrt_chaos::options().plugin;
  options.simulates = pjrt_chaos::options().simulates;
  options.simulated_device = pjrt_chaos::options().simulated_device;
  problem = parse_options(text, options);
  if (!problem.empty()) return problem.c_str();
  set_options(std::move(options));
  update_table();
  reset_counts();
  return nullptr;
}

extern "C" CHAOS_EXPORT int64_t pjrt_chaos_count(const char* name) {
  if (const Function function = function_of(name); function != Function::kCount) {
    return calls(function);
  }
  for (int i = 0; i < static_cast<int>(Count::kCount); ++i) {
    const auto count = static_cast<Count>(i);
    if (text_of(count).name == name) return value(count);
  }
  return -1;
}

extern "C" CHAOS_EXPORT const char* pjrt_chaos_functions() {
  static const auto* const text = [] {
    auto* lines = new std::string;
    for (const std::string_view name : kFunctionNames) lines->append(name).append("\n");
    return lines;
  }();
  return text->c_str();
}

extern "C" CHAOS_EXPORT const char* pjrt_chaos_options() { return options_text().c_str(); }

extern "C" CHAOS_EXPORT const char* pjrt_chaos_counts() {
  static const auto* const text = [] {
    auto* lines = new std::string;
    for (int i = 0; i < static_cast<int>(Count::kCount); ++i) {
      const CountText& count = text_of(static_cast<Count>(i));
      lines->append(count.name).append("|").append(count.meaning).append("\n");
    }
    return lines;
  }();
  return text->c_str();
}
