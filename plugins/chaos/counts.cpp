#include "counts.h"

#include <algorithm>
#include <iterator>

namespace pjrt_chaos {
namespace {

constexpr CountText kTexts[] = {
    {"failures", "calls that failed because `fail` says so", false},
    {"types_refused", "calls refused because of `lacks`", false},
    {"aliases_refused",
     "calls refused or made to copy because of `aliasing=refused` or `simulates`", false},
    {"memory_refused", "calls refused because of `memory_limit`", false},
    {"events_delayed", "events that the chaos thread completed", false},
    {"events_alive", "events of the chaos plugin that were given out and not destroyed", true},
    {"errors_alive", "errors of the chaos plugin that were given out and not destroyed", true},
    {"buffers_alive", "buffers that were given out and not destroyed", true},
    {"bytes_alive", "bytes of the buffers that are neither destroyed, deleted nor donated", true},
    {"sources_checked", "host sources compared with what they were when their transfer began",
     false},
    {"sources_changed", "of these, the ones that had changed", false},
    {"targets_filled", "host targets filled with a pattern until their event is ready", false},
};
static_assert(std::size(kTexts) == static_cast<size_t>(Count::kCount));

std::atomic<int64_t> values[static_cast<size_t>(Count::kCount)];
std::atomic<int64_t> call_counts[kFunctionCount];
std::atomic<int64_t> any_call_count;

}  // namespace

const CountText& text_of(Count count) noexcept { return kTexts[static_cast<size_t>(count)]; }

void add(Count count, int64_t by) noexcept { values[static_cast<size_t>(count)] += by; }
int64_t value(Count count) noexcept { return values[static_cast<size_t>(count)]; }

int64_t add_call(Function function) noexcept {
  return ++call_counts[static_cast<size_t>(function)];
}
int64_t add_any_call() noexcept { return ++any_call_count; }
int64_t calls(Function function) noexcept { return call_counts[static_cast<size_t>(function)]; }

void reset_counts() noexcept {
  for (size_t i = 0; i < std::size(values); ++i) {
    if (!kTexts[i].is_state) values[i] = 0;
  }
  for (auto& count : call_counts) count = 0;
  any_call_count = 0;
}

Function function_of(std::string_view name) noexcept {
  const auto* found = std::find(std::begin(kFunctionNames), std::end(kFunctionNames), name);
  return static_cast<Function>(found - std::begin(kFunctionNames));
}

}  // namespace pjrt_chaos
