#pragma once

#include <optional>

namespace torch_pjrt::aten {

// Whether copies to a device should share the source's memory: the calling thread's choice, else
// the process's (Config::zero_copy), else what was chosen when the graph was recorded that is
// running backward on this thread.
bool zero_copy_wanted();

// The calling thread's choice; empty: none. Returns the choice before.
std::optional<bool> choose_zero_copy(std::optional<bool> choice);

// From now on a copy from xla that is recorded for backward remembers whether zero copy was
// wanted, for the gradient's way back. Costs each such copy part of a microsecond, so it is called
// at the first choice only.
void remember_zero_copy_on_graphs();

}  // namespace torch_pjrt::aten
