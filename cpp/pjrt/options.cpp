#include "pjrt/options.h"

#include <charconv>
#include <cstdio>
#include <optional>
#include <type_traits>

#include "pjrt/error.h"

namespace torch_pjrt::pjrt {
namespace {

constexpr std::string_view kAsked = "read options";

std::string_view trim(std::string_view text) noexcept {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

[[noreturn]] void refuse(std::string_view part, std::string_view wrong) {
  throw Error(ErrorCode::kInvalidArgument, kAsked,
              "'" + std::string(part) + "' " + std::string(wrong) +
                  "; expected key=value;key=value with true, 3, 0.5, [1,2], text or \"text\"");
}

template <typename Number>
std::optional<Number> to_number(std::string_view text) noexcept {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || stopped != end) return std::nullopt;
  return value;
}

std::vector<int64_t> parse_list(std::string_view text, std::string_view part) {
  std::vector<int64_t> values;
  std::string_view rest = trim(text.substr(1, text.size() - 2));
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const auto value = to_number<int64_t>(trim(rest.substr(0, comma)));
    if (!value) refuse(part, "has a list with something else than integers");
    values.push_back(*value);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return values;
}

std::string unquote(std::string_view text) {
  std::string result;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) ++i;
    result += text[i];
  }
  return result;
}

OptionValue parse_value(std::string_view text, std::string_view part) {
  if (text == "true") return true;
  if (text == "false") return false;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') return unquote(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') return parse_list(text, part);
  if (const auto integer = to_number<int64_t>(text)) return *integer;
  // Only what has a digit: "inf" and "nan" are more likely words.
  if (text.find_first_of("0123456789") != std::string_view::npos) {
    if (const auto real = to_number<float>(text)) return *real;
  }
  return std::string(text);
}

// The next part of `rest` up to a ';' outside quotes; removes both from `rest`.
std::string_view take_part(std::string_view& rest) {
  bool quoted = false;
  size_t end = 0;
  for (; end < rest.size(); ++end) {
    if (quoted && rest[end] == '\\') {
      ++end;
    } else if (rest[end] == '"') {
      quoted = !quoted;
    } else if (rest[end] == ';' && !quoted) {
      break;
    }
  }
  if (quoted) refuse(trim(rest), "has a quote that does not end");
  const std::string_view part = rest.substr(0, end);
  rest = end < rest.size() ? rest.substr(end + 1) : std::string_view();
  return trim(part);
}

std::string quote_if_needed(const std::string& text) {
  const bool plain = !text.empty() && trim(text) == text &&
                     text.find_first_of("\";\\") == std::string::npos && text.front() != '[';
  if (plain && std::holds_alternative<std::string>(parse_value(text, text))) return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string float_text(float value) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  std::string result(text, static_cast<size_t>(length));
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

}  // namespace

Options parse_options(std::string_view text) {
  Options options;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = take_part(rest);
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) refuse(part, "has no '='");
    const std::string_view key = trim(part.substr(0, equals));
    if (key.empty()) refuse(part, "has no key");
    if (!options.emplace(key, parse_value(trim(part.substr(equals + 1)), part)).second) {
      refuse(part, "sets its key a second time");
    }
  }
  return options;
}

std::string to_text(const OptionValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, bool>) {
          return held ? "true" : "false";
        } else if constexpr (std::is_same_v<Held, int64_t>) {
          return std::to_string(held);
        } else if constexpr (std::is_same_v<Held, float>) {
          return float_text(held);
        } else if constexpr (std::is_same_v<Held, std::string>) {
          return quote_if_needed(held);
        } else {
          std::string list = "[";
          for (const int64_t item : held) {
            if (list.size() > 1) list += ',';
            list += std::to_string(item);
          }
          return list + ']';
        }
      },
      value);
}

std::string to_text(const Options& options) {
  std::string text;
  for (const auto& [key, value] : options) {
    if (!text.empty()) text += ';';
    text += key + '=' + to_text(value);
  }
  return text;
}

Options from_named_values(const PJRT_NamedValue* values, size_t count) {
  Options options;
  for (size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& value = values[i];
    OptionValue& held = options[std::string(value.name, value.name_size)];
    switch (value.type) {
      case PJRT_NamedValue_kString:
        held = std::string(value.string_value, value.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        held = value.int64_value;
        break;
      case PJRT_NamedValue_kInt64List:
        held = std::vector<int64_t>(value.int64_array_value,
                                    value.int64_array_value + value.value_size);
        break;
      case PJRT_NamedValue_kFloat:
        held = value.float_value;
        break;
      case PJRT_NamedValue_kBool:
        held = value.bool_value;
        break;
      default:
        held = std::string("a value of a kind newer than this program");
    }
  }
  return options;
}

NamedValues::NamedValues(const Options& options) {
  values_.reserve(options.size());
  for (const auto& [key, value] : options) {
    PJRT_NamedValue named{};
    named.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    named.name = key.data();
    named.name_size = key.size();
    named.value_size = 1;
    if (const auto* boolean = std::get_if<bool>(&value)) {
      named.type = PJRT_NamedValue_kBool;
      named.bool_value = *boolean;
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      named.type = PJRT_NamedValue_kInt64;
      named.int64_value = *integer;
    } else if (const auto* real = std::get_if<float>(&value)) {
      named.type = PJRT_NamedValue_kFloat;
      named.float_value = *real;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      named.type = PJRT_NamedValue_kString;
      named.string_value = text->data();
      named.value_size = text->size();
    } else {
      const auto& list = std::get<std::vector<int64_t>>(value);
      named.type = PJRT_NamedValue_kInt64List;
      named.int64_array_value = list.data();
      named.value_size = list.size();
    }
    values_.push_back(named);
  }
}

}  // namespace torch_pjrt::pjrt
