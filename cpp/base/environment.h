#pragma once

#include <cstdint>
#include <optional>

namespace torch_pjrt::base {

// The whole number that an environment variable holds, in decimal digits; empty where the variable
// is not set, or holds anything else or a number out of range. Any thread, as long as none changes
// the environment.
std::optional<uint64_t> environment_number(const char* name, uint64_t least,
                                           uint64_t most) noexcept;

}  // namespace torch_pjrt::base
