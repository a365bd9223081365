#pragma once

#include <functional>

#include "errors.h"
#include "pjrt_c_api.h"

namespace pjrt_chaos {

// What is done just before an event becomes ready; an error of it becomes the event's.
using Completion = std::function<ErrorText()>;

// Puts an event of ours in the place of the wrapped plugin's, if the options delay events or there
// is something to do at its completion. A null event stays.
void wrap_event(PJRT_Event*& event, Completion completion = {});

// Wraps the events that a call gave out.
template <typename Args>
void wrap_events(Args&, Completion) {}
#define CHAOS_EVENT(function, field)                                      \
  inline void wrap_events(function##_Args& args, Completion completion) { \
    wrap_event(args.field, std::move(completion));                        \
  }
#define CHAOS_BUFFER(function, field)
#include "handles.inc"
#undef CHAOS_BUFFER
#undef CHAOS_EVENT
void wrap_events(PJRT_LoadedExecutable_Execute_Args& args, Completion completion);

// Serves a call about an event of ours: true, with `error` as its result. False for an event of
// the wrapped plugin and for all other calls.
template <typename Args>
bool serve_event(Args&, PJRT_Error*&) {
  return false;
}
bool serve_event(PJRT_Event_Destroy_Args& args, PJRT_Error*& error);
bool serve_event(PJRT_Event_IsReady_Args& args, PJRT_Error*& error);
bool serve_event(PJRT_Event_Error_Args& args, PJRT_Error*& error);
bool serve_event(PJRT_Event_Await_Args& args, PJRT_Error*& error);
bool serve_event(PJRT_Event_OnReady_Args& args, PJRT_Error*& error);

}  // namespace pjrt_chaos
