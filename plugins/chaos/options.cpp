#include "options.h"

#include <atomic>
#include <charconv>
#include <deque>
#include <mutex>

#include "errors.h"
#include "types.h"

namespace pjrt_chaos {
namespace {

std::atomic<const Options*> current{nullptr};

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (const auto part = trim(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string expected(std::string_view got, std::string_view what) {
  return "got '" + std::string(got) + "', expected " + std::string(what);
}

template <typename Integer>
std::string read_integer(std::string_view text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) return {};
  return expected(text, "an integer from 0");
}

std::string read_functions(std::string_view text, std::vector<Function>& functions) {
  functions.clear();
  for (const std::string_view part : split(text, ',')) {
    functions.push_back(function_of(part));
    if (functions.back() == Function::kCount) {
      return expected(part, "the name of a function of pjrt_c_api.h");
    }
  }
  return {};
}

// `function:call:code`, where call is `3`, `3+` (from the third on) or `*`.
std::string read_failure(std::string_view text, FailureRule& rule) {
  constexpr std::string_view kForm = "function:call:CODE";
  const auto parts = split(text, ':');
  if (parts.size() != 3) return expected(text, kForm);
  if (parts[0] != "*") {
    rule.function = function_of(parts[0]);
    if (rule.function == Function::kCount) {
      return expected(parts[0], "the name of a function of pjrt_c_api.h, or *");
    }
  }
  std::string_view call = parts[1];
  const bool open_end = call == "*" || call.ends_with('+');
  if (call == "*") call = "1+";
  if (open_end) call.remove_suffix(1);
  if (std::string problem = read_integer(call, rule.first); !problem.empty()) return problem;
  rule.last = open_end ? std::numeric_limits<int64_t>::max() : rule.first;
  if (!code_of(parts[2], rule.code)) {
    return expected(parts[2], "an error code as pjrt_c_api.h spells it, such as INTERNAL");
  }
  return {};
}

std::string read_failures(std::string_view text, Options& options) {
  options.fail.clear();
  for (const std::string_view part : split(text, ',')) {
    FailureRule rule;
    if (std::string problem = read_failure(part, rule); !problem.empty()) return problem;
    options.fail.push_back(rule);
  }
  return {};
}

std::string read_order(std::string_view text, Options& options) {
  options.delay_events = true;
  if (text == "recorded") {
    options.order = EventOrder::kRecorded;
  } else if (text == "reversed") {
    options.order = EventOrder::kReversed;
  } else if (text == "random") {
    options.order = EventOrder::kRandom;
  } else {
    return expected(text, "recorded, reversed or random");
  }
  return {};
}

std::string read_lacks(std::string_view text, Options& options) {
  options.lacks.reset();
  for (const std::string_view part : split(text, ',')) {
    if (!add_types(part, options.lacks)) {
      return expected(part, "a type such as f64 or c64, or a set: " + type_sets());
    }
  }
  return {};
}

int extension_of(std::string_view name) {
#define CHAOS_EXTENSION_TYPE(spelling) \
  if (name == #spelling) return PJRT_Extension_Type_##spelling;
#include "extension_types.inc"
#undef CHAOS_EXTENSION_TYPE
  int number = -1;
  return read_integer(name, number).empty() ? number : -1;
}

std::string read_extensions(std::string_view text, Options& options) {
  options.hide_extensions.clear();
  options.hide_all_extensions = text == "all";
  if (options.hide_all_extensions) return {};
  for (const std::string_view part : split(text, ',')) {
    options.hide_extensions.push_back(extension_of(part));
    if (options.hide_extensions.back() < 0) {
      return expected(part,
                      "all, or extensions as pjrt_c_api.h spells them (Layouts) or by number");
    }
  }
  return {};
}

std::string read_memory_kinds(std::string_view text, Options& options) {
  options.memory_kinds.clear();
  for (const std::string_view part : split(text, ',')) {
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos) return expected(part, "real:reported");
    options.memory_kinds.emplace(part.substr(0, colon), part.substr(colon + 1));
  }
  return {};
}

std::string read_word(std::string_view text, std::string_view word, bool& value) {
  value = text == word;
  return value ? std::string() : expected(text, word);
}

std::string read_left_out(std::string_view text, Options& options) {
  options.leave_out_wait_stream = options.leave_out_view = options.leave_out_release = false;
  for (const std::string_view part : split(text, ',')) {
    if (part == "wait_stream") {
      options.leave_out_wait_stream = true;
    } else if (part == "view") {
      options.leave_out_view = true;
    } else if (part == "release") {
      options.leave_out_release = true;
    } else {
      return expected(part, "wait_stream, view or release");
    }
  }
  return {};
}

std::string read_stream_extension(std::string_view text, Options& options) {
  if (text == "whole") {
    options.stream_extension = StreamExtension::kWhole;
  } else if (text == "short") {
    options.stream_extension = StreamExtension::kShort;
  } else if (text == "empty") {
    options.stream_extension = StreamExtension::kEmpty;
  } else if (text == "failing") {
    options.stream_extension = StreamExtension::kFailing;
  } else {
    return expected(text, "whole, short, empty or failing");
  }
  return {};
}

struct Row {
  std::string_view name;
  std::string_view initial;
  std::string_view meaning;
  std::string (*read)(std::string_view text, Options& options);
};

constexpr Row kRows[] = {
    {"plugin", "the variable PJRT_CHAOS_PLUGIN",
     "The library of the plugin that is wrapped. Read once, when the table is asked for.",
     [](std::string_view text, Options& options) {
       options.plugin = text;
       return std::string();
     }},
    {"fail", "none",
     "Calls that fail, as `function:call:CODE` separated by commas: "
     "`PJRT_Client_Compile:2:INTERNAL` fails the second call of that function, `:3+:` all from the "
     "third on, `:*:` every one; `*:17:ABORTED` fails the 17th call of any function. What only "
     "gives something back (`PJRT_Buffer_Destroy` and its like) is done all the same, and the "
     "failure reported; `PJRT_Error_Destroy` and `PJRT_Error_Message` cannot fail.",
     read_failures},
    {"delay_ms", "0",
     "Events are completed by a thread of the chaos plugin, this many milliseconds after the first "
     "that waits; callbacks run on that thread.",
     [](std::string_view text, Options& options) {
       options.delay_events = true;
       return read_integer(text, options.delay_milliseconds);
     }},
    {"order", "recorded",
     "In which order the chaos thread completes the events that came while it waited: `recorded` "
     "(as they were made), `reversed` or `random`. Naming it also moves them to that thread.",
     read_order},
    {"seed", "0", "Of the random order.",
     [](std::string_view text, Options& options) { return read_integer(text, options.seed); }},
    {"lacks", "none",
     "Element types that the device does not have, separated by commas: `f64,s64,c64`, or a set "
     "of them: {sets}. Buffers of these types, and programs that use or return one, are refused "
     "with UNIMPLEMENTED.",
     read_lacks},
    {"aliasing", "allowed",
     "`refused`: zero-copy buffers are copied instead, views of foreign memory and the addresses "
     "of "
     "buffers are refused with UNIMPLEMENTED, and no buffer is on the CPU.",
     [](std::string_view text, Options& options) {
       return read_word(text, "refused", options.refuse_aliasing);
     }},
    {"hide", "none",
     "Functions, separated by commas, that are null in the table, as in a plugin that lacks them.",
     [](std::string_view text, Options& options) { return read_functions(text, options.hide); }},
    {"last_function", "the last that header and wrapped plugin both have",
     "The table ends with this function, as that of an older plugin does.",
     [](std::string_view text, Options& options) {
       options.last_function = function_of(text);
       return options.last_function != Function::kCount
                  ? std::string()
                  : expected(text, "the name of a function of pjrt_c_api.h");
     }},
    {"hide_extensions", "none",
     "`all`, or extensions separated by commas, as pjrt_c_api.h spells them (`Layouts,FFI`) or by "
     "number.",
     read_extensions},
    {"memory_limit", "none",
     "Bytes that live buffers may have together. What would exceed them is refused with "
     "RESOURCE_EXHAUSTED; PJRT_Device_MemoryStats reports the limit and the bytes in use.",
     [](std::string_view text, Options& options) {
       return read_integer(text, options.memory_limit);
     }},
    {"memory_kinds", "the real ones",
     "Other names for memory kinds, as `real:reported` separated by commas: "
     "`device:hbm,unpinned_host:host`.",
     read_memory_kinds},
    {"platform_name", "the real one", "Another name of the platform.",
     [](std::string_view text, Options& options) {
       options.platform_name = text;
       return std::string();
     }},
    {"host_memory", "not checked",
     "`checked`: a source is compared, just before its done event, with what it was when the "
     "transfer began; if it changed, the event gets FAILED_PRECONDITION, a line goes to stderr and "
     "`sources_changed` counts it. A target of a copy to the host holds the byte 0xA5 until just "
     "before its event is ready.",
     [](std::string_view text, Options& options) {
       return read_word(text, "checked", options.check_host_memory);
     }},
    {"simulates", "none",
     "The library of a simulated accelerator (`plugins/simulated_accelerator`), whose platform "
     "this "
     "plugin then is: its name, memory that the host cannot address, and the stream extension, "
     "which orders buffers with the accelerator's streams. Read once, at start.",
     [](std::string_view text, Options& options) {
       options.simulates = text;
       return std::string();
     }},
    {"simulated_device", "0",
     "Which of the simulated accelerators has the memory of this platform's devices. Stays.",
     [](std::string_view text, Options& options) {
       return read_integer(text, options.simulated_device);
     }},
    {"leave_out", "none",
     "Waits that the simulated platform leaves out, separated by commas, to show that a test "
     "notices: `wait_stream` (a stream's for a buffer), `view` (a view's contents for the stream "
     "that was named for it), `release` (a view's memory is given back at once).",
     read_left_out},
    {"stream_extension", "whole",
     "That of the simulated platform: `short` ends it before the wait of a stream, as in an older "
     "plugin; `empty` leaves its functions out; `failing` lets them fail with UNAVAILABLE.",
     read_stream_extension},
};

const Row* row_of(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace

const Options& options() noexcept {
  static const Options none;
  const Options* now = current.load(std::memory_order_acquire);
  return now != nullptr ? *now : none;
}

void set_options(Options options) {
  // All are kept: callers on other threads may still read the one before, and names from it.
  static std::mutex mutex;
  static auto* const all = new std::deque<Options>;
  const std::lock_guard lock(mutex);
  current.store(&all->emplace_back(std::move(options)), std::memory_order_release);
}

std::string parse_options(std::string_view text, Options& base) {
  for (const std::string_view part : split(text, ';')) {
    const size_t equals = part.find('=');
    const std::string_view name = trim(part.substr(0, equals));
    const Row* const row = row_of(name);
    std::string problem;
    if (equals == std::string_view::npos || row == nullptr) {
      std::string names;
      for (const Row& known : kRows) names.append(names.empty() ? "" : ", ").append(known.name);
      problem = expected(part, "name=value with one of the names " + names);
    } else {
      problem = row->read(trim(part.substr(equals + 1)), base);
    }
    if (!problem.empty()) {
      return "read the chaos option '" + std::string(name) + "': " + problem;
    }
  }
  return {};
}

const std::string& options_text() {
  static const std::string* const text = [] {
    auto* lines = new std::string;
    for (const Row& row : kRows) {
      std::string meaning(row.meaning);
      if (const size_t at = meaning.find("{sets}"); at != std::string::npos) {
        meaning.replace(at, 6, type_sets());
      }
      lines->append(row.name).append("|").append(row.initial).append("|").append(meaning);
      lines->append("\n");
    }
    return lines;
  }();
  return *text;
}

}  // namespace pjrt_chaos
