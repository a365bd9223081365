#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// Named values that a plugin takes (create options) or tells (attributes).
using OptionValue = std::variant<bool, int64_t, float, std::string, std::vector<int64_t>>;
using Options = std::map<std::string, OptionValue>;

// Reads `key=value;key=value`: true and false, integers, floats (with a point or an exponent),
// [1,2,3], and anything else as a string; "..." keeps a string from being read as something else
// and may hold `;`. Throws Error(kInvalidArgument) that names the part it could not read.
Options parse_options(std::string_view text);

// What parse_options reads back to the same values.
std::string to_text(const OptionValue& value);
std::string to_text(const Options& options);

Options from_named_values(const PJRT_NamedValue* values, size_t count);

// The list that the C API takes. Points into `options`, which must outlive it unchanged.
class NamedValues {
 public:
  explicit NamedValues(const Options& options);

  const PJRT_NamedValue* data() const noexcept { return values_.data(); }
  size_t size() const noexcept { return values_.size(); }

 private:
  std::vector<PJRT_NamedValue> values_;
};

}  // namespace torch_pjrt::pjrt
