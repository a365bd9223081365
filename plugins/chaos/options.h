#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "functions.h"
#include "pjrt_c_api.h"

namespace pjrt_chaos {

struct FailureRule {
  Function function = Function::kCount;  // kCount: any
  int64_t first = 1;                     // the calls that fail, from 1
  int64_t last = 1;
  PJRT_Error_Code code = PJRT_Error_Code_INTERNAL;
};

enum class EventOrder { kRecorded, kReversed, kRandom };

enum class StreamExtension { kWhole, kShort, kEmpty, kFailing };

struct Options {
  std::string plugin;

  std::vector<FailureRule> fail;

  bool delay_events = false;
  int64_t delay_milliseconds = 0;
  EventOrder order = EventOrder::kRecorded;
  uint64_t seed = 0;

  std::bitset<64> lacks;  // by PJRT_Buffer_Type

  bool refuse_aliasing = false;

  std::vector<Function> hide;
  Function last_function = Function::kCount;
  bool hide_all_extensions = false;
  std::vector<int> hide_extensions;  // PJRT_Extension_Type

  int64_t memory_limit = std::numeric_limits<int64_t>::max();
  std::map<std::string, std::string, std::less<>> memory_kinds;
  std::string platform_name;

  bool check_host_memory = false;

  std::string simulates;  // the simulated accelerator's library; stays, as `plugin` does
  int simulated_device = 0;
  bool leave_out_wait_stream = false;
  bool leave_out_view = false;
  bool leave_out_release = false;
  StreamExtension stream_extension = StreamExtension::kWhole;
};

// The options in force. Never null and never freed: who reads it may keep it.
const Options& options() noexcept;
void set_options(Options options);

// Reads `name=value;name=value` over `base`. Returns what is wrong, or an empty text.
std::string parse_options(std::string_view text, Options& base);

// One line an option: `name|default|meaning`.
const std::string& options_text();

}  // namespace pjrt_chaos
