#include "events.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "counts.h"
#include "event_thread.h"
#include "options.h"
#include "wrapped.h"

namespace pjrt_chaos {
namespace {

struct Callback {
  PJRT_Event_OnReadyCallback function;
  void* argument;
};

// Shared by the handle that the caller has and by the pending completion.
struct Event {
  PJRT_Event* wrapped = nullptr;  // destroyed with the handle
  uint64_t sequence = 0;
  Completion completion;

  std::mutex mutex;
  std::condition_variable became_ready;
  bool ready = false;
  ErrorText error;
  std::vector<Callback> callbacks;
};
using EventPtr = std::shared_ptr<Event>;

// Ours are known by their addresses, which are the handles: extensions give out others.
struct Known {
  std::mutex mutex;
  std::unordered_map<const void*, EventPtr> events;
};
Known& known() {
  static auto* const instance = new Known;
  return *instance;
}

EventPtr find(const PJRT_Event* event) {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const auto found = all.events.find(event);
  return found != all.events.end() ? found->second : nullptr;
}

void complete(Event& event, ErrorText error) {
  if (event.completion) {
    const ErrorText found = event.completion();
    event.completion = nullptr;
    if (!error) error = found;
  }
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(event.mutex);
    event.ready = true;
    event.error = error;
    callbacks.swap(event.callbacks);
  }
  event.became_ready.notify_all();
  for (const Callback& callback : callbacks)
    callback.function(make_error(error), callback.argument);
}

// On a thread of the wrapped plugin, or on the caller's: only hands over.
void when_wrapped_is_ready(PJRT_Error* wrapped_error, void* argument) {
  const std::unique_ptr<EventPtr> owner(static_cast<EventPtr*>(argument));
  EventPtr event = *owner;
  const uint64_t sequence = event->sequence;
  run_on_event_thread(sequence, [event = std::move(event), error = take_error(wrapped_error)] {
    complete(*event, error);
  });
}

}  // namespace

void wrap_event(PJRT_Event*& event, Completion completion) {
  static std::atomic<uint64_t> next_sequence{0};
  if (event == nullptr || (!completion && !options().delay_events)) return;
  auto ours = std::make_shared<Event>();
  ours->wrapped = event;
  ours->sequence = next_sequence++;
  ours->completion = std::move(completion);
  auto argument = std::make_unique<EventPtr>(ours);
  CHAOS_ARGS(PJRT_Event_OnReady, args);
  args.event = event;
  args.callback = when_wrapped_is_ready;
  args.user_arg = argument.get();
  if (const ErrorText error = ask(&PJRT_Api::PJRT_Event_OnReady, args)) {
    // Without callbacks there is only waiting: the event is late by nothing but that.
    CHAOS_ARGS(PJRT_Event_Await, await);
    await.event = event;
    complete(*ours, ask(&PJRT_Api::PJRT_Event_Await, await));
  } else {
    static_cast<void>(argument.release());
  }
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  event = reinterpret_cast<PJRT_Event*>(ours.get());
  all.events.emplace(ours.get(), std::move(ours));
  add(Count::kEventsAlive);
}

void wrap_events(PJRT_LoadedExecutable_Execute_Args& args, Completion) {
  if (args.device_complete_events == nullptr) return;
  for (size_t i = 0; i < args.num_devices; ++i) wrap_event(args.device_complete_events[i]);
}

bool serve_event(PJRT_Event_Destroy_Args& args, PJRT_Error*& error) {
  EventPtr event;
  {
    Known& all = known();
    const std::lock_guard lock(all.mutex);
    const auto found = all.events.find(args.event);
    if (found == all.events.end()) return false;
    event = std::move(found->second);
    all.events.erase(found);
  }
  add(Count::kEventsAlive, -1);
  CHAOS_ARGS(PJRT_Event_Destroy, destroy);
  destroy.event = event->wrapped;
  error = make_error(ask(&PJRT_Api::PJRT_Event_Destroy, destroy));
  return true;
}

bool serve_event(PJRT_Event_IsReady_Args& args, PJRT_Error*&) {
  const EventPtr event = find(args.event);
  if (event == nullptr) return false;
  const std::lock_guard lock(event->mutex);
  args.is_ready = event->ready;
  return true;
}

bool serve_event(PJRT_Event_Error_Args& args, PJRT_Error*& error) {
  const EventPtr event = find(args.event);
  if (event == nullptr) return false;
  const std::lock_guard lock(event->mutex);
  error = make_error(event->error);
  return true;
}

bool serve_event(PJRT_Event_Await_Args& args, PJRT_Error*& error) {
  const EventPtr event = find(args.event);
  if (event == nullptr) return false;
  std::unique_lock lock(event->mutex);
  event->became_ready.wait(lock, [&] { return event->ready; });
  error = make_error(event->error);
  return true;
}

bool serve_event(PJRT_Event_OnReady_Args& args, PJRT_Error*&) {
  const EventPtr event = find(args.event);
  if (event == nullptr) return false;
  {
    const std::lock_guard lock(event->mutex);
    if (!event->ready) {
      event->callbacks.push_back({args.callback, args.user_arg});
      return true;
    }
  }
  args.callback(make_error(event->error), args.user_arg);
  return true;
}

}  // namespace pjrt_chaos
