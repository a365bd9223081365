#include "base/source_line.h"

namespace torch_pjrt::base {
namespace {

SourceLineHooks hooks;  // set once, before the first use

}  // namespace

void set_source_line_hooks(SourceLineHooks new_hooks) noexcept { hooks = new_hooks; }

uint32_t current_source_line() noexcept { return hooks.current ? hooks.current() : 0; }

std::string describe_source_line(uint32_t line) {
  return hooks.describe && line != 0 ? hooks.describe(line) : std::string();
}

}  // namespace torch_pjrt::base
