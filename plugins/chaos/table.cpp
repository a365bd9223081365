#include "table.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

#include "aliasing.h"
#include "counts.h"
#include "create_options.h"
#include "errors.h"
#include "event_thread.h"
#include "events.h"
#include "failures.h"
#include "functions.h"
#include "host_memory.h"
#include "memory.h"
#include "options.h"
#include "reports.h"
#include "simulated_platform.h"
#include "types.h"
#include "wrapped.h"

namespace pjrt_chaos {
namespace {

PJRT_Api api;
ErrorText startup_problem;  // why nothing is wrapped; told by every call that there is then

template <typename Args>
void finish(const Args&) {}
void finish(const PJRT_Client_Destroy_Args&) { wait_for_event_thread(); }

// What every call goes through. Each concern has overloads for the calls that it is about.
template <typename Args>
PJRT_Error* perform(PJRT_Error* (*wrapped_function)(Args*), Args& args) {
  PJRT_Error* error = nullptr;
  if (serve_event(args, error)) return error;
  if (serve_memory(args)) return nullptr;
  WithoutOurOptions<Args> without_our_options(args);
  if ((error = without_our_options.apply()) != nullptr) return error;
  if ((error = refuse_types(args)) != nullptr) return error;
  if ((error = refuse_aliasing(args)) != nullptr) return error;
  if ((error = refuse_memory(args)) != nullptr) return error;
  CopyInstead<Args> copy_instead(args);
  HostMemoryWatch<Args> watch(args);
  SimulatedCall<Args> simulated(args);
  if ((error = simulated.before()) != nullptr) return error;
  account_before(args);
  error = wrapped_function(&args);
  if (error != nullptr) return error;
  if ((error = refuse_made_types(args)) != nullptr) return error;
  account_after(args);
  simulated.after();
  rename(args);
  deny_aliasing(args);
  Completion completion = watch.completion();
  wrap_events(args, completion ? std::move(completion) : contents_of_stream(args));
  finish(args);
  return nullptr;
}

// The chaos plugin's entry for a function.
template <Function function, auto entry>
struct Entry;

template <Function function, typename Args, PJRT_Error* (*PJRT_Api::*entry)(Args*)>
struct Entry<function, entry> {
  static PJRT_Error* call(Args* args) {
    try {
      if (startup_problem) return make_error(startup_problem);
      PJRT_Error* const failure = failure_of_call(function);
      if (failure != nullptr && !is_release(function)) return failure;
      PJRT_Error* const error = perform<Args>(wrapped()->*entry, *args);
      if (failure == nullptr) return error;
      take_error(error);
      return failure;
    } catch (const std::exception& problem) {
      return make_error(PJRT_Error_Code_INTERNAL, problem.what());
    }
  }
};

// What errors are asked works also when there is nothing to wrap.
template <>
struct Entry<Function::kPJRT_Error_GetCode, &PJRT_Api::PJRT_Error_GetCode> {
  static PJRT_Error* call(PJRT_Error_GetCode_Args* args) {
    if (PJRT_Error* failure = failure_of_call(Function::kPJRT_Error_GetCode)) return failure;
    return error_code(args);
  }
};
template <>
struct Entry<Function::kPJRT_Error_Destroy, &PJRT_Api::PJRT_Error_Destroy> {
  static void call(PJRT_Error_Destroy_Args* args) {
    count_call(Function::kPJRT_Error_Destroy);
    destroy_error(args);
  }
};
template <>
struct Entry<Function::kPJRT_Error_Message, &PJRT_Api::PJRT_Error_Message> {
  static void call(PJRT_Error_Message_Args* args) {
    count_call(Function::kPJRT_Error_Message);
    error_message(args);
  }
};

bool is_hidden(Function function) {
  const auto& hidden = options().hide;
  return function > options().last_function ||
         std::find(hidden.begin(), hidden.end(), function) != hidden.end();
}

int number_of(const PJRT_Extension_Base& extension) {
  int number = 0;  // a newer plugin has types that the header's enum cannot hold
  std::memcpy(&number, &extension.type, sizeof number);
  return number;
}

// The wrapped plugin's chain of extensions without the hidden ones: copies, since the links differ.
PJRT_Extension_Base* shown_extensions() {
  static auto* const kept = new std::vector<std::vector<char>>;  // never freed: a caller has them
  const auto& hidden = options().hide_extensions;
  PJRT_Extension_Base* const first = with_stream_extension(wrapped()->extension_start);
  if (options().hide_all_extensions) return nullptr;
  if (hidden.empty()) return first;
  PJRT_Extension_Base* start = nullptr;
  PJRT_Extension_Base** link = &start;
  for (const auto* at = first; at != nullptr; at = at->next) {
    if (std::find(hidden.begin(), hidden.end(), number_of(*at)) != hidden.end()) continue;
    const auto* bytes = reinterpret_cast<const char*>(at);
    auto& copy = kept->emplace_back(bytes, bytes + at->struct_size);
    *link = reinterpret_cast<PJRT_Extension_Base*>(copy.data());
    link = &(*link)->next;
  }
  *link = nullptr;
  return start;
}

void show_wrapped() {
  const PJRT_Api* const real = wrapped();
  api.struct_size = std::min<size_t>(PJRT_Api_STRUCT_SIZE, real->struct_size);
  if (options().last_function != Function::kCount) {
    const size_t shown = static_cast<size_t>(options().last_function) + 1;
    api.struct_size =
        std::min(api.struct_size, offsetof(PJRT_Api, PJRT_Error_Destroy) + shown * sizeof(void*));
  }
  api.extension_start = shown_extensions();
  api.pjrt_api_version = real->pjrt_api_version;
  api.pjrt_api_version.minor_version =
      std::min(PJRT_API_MINOR, real->pjrt_api_version.minor_version);
#define CHAOS_FUNCTION(function)                                                \
  api.function = has(&PJRT_Api::function) && !is_hidden(Function::k##function)  \
                     ? &Entry<Function::k##function, &PJRT_Api::function>::call \
                     : nullptr;
#include "functions.inc"
#undef CHAOS_FUNCTION
}

// A table that loads, so that the reason reaches the caller as an error.
void show_problem() {
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
#define CHAOS_SHOW(function) api.function = &Entry<Function::k##function, &PJRT_Api::function>::call
  CHAOS_SHOW(PJRT_Error_Destroy);
  CHAOS_SHOW(PJRT_Error_Message);
  CHAOS_SHOW(PJRT_Error_GetCode);
  CHAOS_SHOW(PJRT_Plugin_Initialize);
  CHAOS_SHOW(PJRT_Client_Create);
#undef CHAOS_SHOW
}

std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

void start() {
  Options options;
  options.plugin = variable("PJRT_CHAOS_PLUGIN");
  const std::string problem = parse_options(variable("PJRT_CHAOS_OPTIONS"), options);
  set_options(options);
  if (!problem.empty()) {
    startup_problem = {PJRT_Error_Code_INVALID_ARGUMENT, problem};
  } else {
    startup_problem = load_wrapped(options.plugin);
  }
  if (!startup_problem && !options.simulates.empty()) {
    const std::string reason = load_simulator(options.simulates);
    if (!reason.empty()) startup_problem = {PJRT_Error_Code_NOT_FOUND, reason};
  }
  startup_problem ? show_problem() : show_wrapped();
}

}  // namespace

const PJRT_Api* table() {
  static std::once_flag once;
  std::call_once(once, start);
  return &api;
}

void update_table() {
  table();
  if (!startup_problem) show_wrapped();
}

}  // namespace pjrt_chaos

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  return pjrt_chaos::table();
}
