#include "base/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace torch_pjrt::base {

std::optional<uint64_t> environment_number(const char* name, uint64_t least,
                                           uint64_t most) noexcept {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text(value);
  const char* const end = text.data() + text.size();
  uint64_t number = 0;
  const auto [parsed, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || parsed != end || number < least || number > most) {
    return std::nullopt;
  }
  return number;
}

}  // namespace torch_pjrt::base
