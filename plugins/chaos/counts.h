#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "functions.h"

namespace pjrt_chaos {

enum class Count : int {
  kFailures,
  kTypesRefused,
  kAliasesRefused,
  kMemoryRefused,
  kEventsDelayed,
  kEventsAlive,
  kErrorsAlive,
  kBuffersAlive,
  kBytesAlive,
  kSourcesChecked,
  kSourcesChanged,
  kTargetsFilled,
  kCount
};

struct CountText {
  std::string_view name;
  std::string_view meaning;
  bool is_state;  // goes up and down, so it is not reset
};
const CountText& text_of(Count count) noexcept;

void add(Count count, int64_t by = 1) noexcept;
int64_t value(Count count) noexcept;

// Adds a call and returns its number, from 1.
int64_t add_call(Function function) noexcept;
// The same over all functions.
int64_t add_any_call() noexcept;
int64_t calls(Function function) noexcept;

void reset_counts() noexcept;

}  // namespace pjrt_chaos
