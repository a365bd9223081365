#include "pjrt/event.h"

#include <chrono>
#include <exception>
#include <new>
#include <thread>

#include "base/blocking_region.h"
#include "pjrt/call.h"

namespace torch_pjrt::pjrt {
namespace {

// Await told an error: that of the event, which is ready then, or one of its own.
void wait_without_await(const Event& event) noexcept {
  constexpr int kTries = 3;
  for (int failures = 0; failures < kTries;) {
    try {
      if (event.is_ready()) return;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } catch (const std::exception&) {
      ++failures;  // a plugin that cannot tell at all is not waited for
    }
  }
}

// What a callback is told where there is no memory left for the error itself.
const Error& untold_error() {
  static const Error* const error =
      new Error(ErrorCode::kResourceExhausted, "work on a device",
                "it failed, and no memory is left to tell how; free some");
  return *error;
}

}  // namespace

void Event::destroy() noexcept {
  if (event_ == nullptr) return;
  TORCH_PJRT_ARGS(PJRT_Event_Destroy, args);
  args.event = std::exchange(event_, nullptr);
  TORCH_PJRT_CALL_IN_DESTRUCTOR(api_, PJRT_Event_Destroy, args, "destroy an event");
}

bool Event::is_ready() const {
  if (event_ == nullptr) return true;
  TORCH_PJRT_ARGS(PJRT_Event_IsReady, args);
  args.event = event_;
  TORCH_PJRT_CALL(api_, PJRT_Event_IsReady, args, "ask whether an event is ready");
  return args.is_ready;
}

void Event::await(std::string_view what_was_asked) const {
  if (event_ == nullptr) return;
  std::optional<Error> problem;
  try {
    if (is_ready()) {
      TORCH_PJRT_ARGS(PJRT_Event_Error, args);
      args.event = event_;
      TORCH_PJRT_CALL(api_, PJRT_Event_Error, args, what_was_asked);
      return;
    }
  } catch (const Error& error) {
    // Told once it is ready: whoever waits takes an error, too, for the end of the work.
    problem = error;
  }
  TORCH_PJRT_ARGS(PJRT_Event_Await, args);
  args.event = event_;
  base::BlockingRegion region;
  try {
    TORCH_PJRT_CALL(api_, PJRT_Event_Await, args, what_was_asked);
  } catch (const Error& error) {
    if (!problem) problem = error;
    wait_without_await(*this);
  }
  if (problem) throw *problem;
}

std::optional<Error> Event::error() const {
  if (event_ == nullptr || !is_ready()) return std::nullopt;
  TORCH_PJRT_ARGS(PJRT_Event_Error, args);
  args.event = event_;
  PJRT_Error* error = api_->PJRT_Event_Error(&args);
  if (error == nullptr) return std::nullopt;
  return take_error(api_, error, "work on a device");
}

void Event::register_callback(std::unique_ptr<CallbackBox> box) const {
  if (event_ == nullptr) {
    box->run(nullptr);
    return;
  }
  box->api = api_;
  untold_error();  // made while an exception may still be thrown
  TORCH_PJRT_ARGS(PJRT_Event_OnReady, args);
  args.event = event_;
  args.user_arg = box.get();
  args.callback = [](PJRT_Error* error, void* argument) noexcept {
    std::unique_ptr<CallbackBox> owned(static_cast<CallbackBox*>(argument));
    if (error == nullptr) {
      owned->run(nullptr);
      return;
    }
    std::optional<Error> told;
    try {
      told = take_error(owned->api, error, "work on a device");
    } catch (const std::bad_alloc&) {
    }
    owned->run(told ? &*told : &untold_error());
  };
  TORCH_PJRT_CALL(api_, PJRT_Event_OnReady, args, "register a callback for an event");
  static_cast<void>(box.release());  // the runtime has it now; it may have run already
}

}  // namespace torch_pjrt::pjrt
