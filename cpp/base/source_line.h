#pragma once

#include <cstdint>
#include <string>

namespace torch_pjrt::base {

// Where the user's program is, for errors that come later than the call that caused them. The
// bindings set the hooks; without them there are no lines.
struct SourceLineHooks {
  // A number for the line that this thread executes, 0 when there is none. Costs tens of
  // nanoseconds, and takes the GIL once for each new line: no lock may be held. Any thread.
  uint32_t (*current)() noexcept = nullptr;
  // The line as "file.py:12"; empty for 0. Any thread.
  std::string (*describe)(uint32_t line) = nullptr;
};

void set_source_line_hooks(SourceLineHooks hooks) noexcept;

uint32_t current_source_line() noexcept;
std::string describe_source_line(uint32_t line);

}  // namespace torch_pjrt::base
