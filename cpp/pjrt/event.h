#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "pjrt/error.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// Owns a PJRT event. An empty one counts as ready and without error. May be destroyed before it is
// ready; that waits for nothing and callbacks still run.
class Event {
 public:
  Event() noexcept = default;
  Event(const PJRT_Api* api, PJRT_Event* event) noexcept : api_(api), event_(event) {}
  Event(Event&& other) noexcept : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    if (this != &other) {
      destroy();
      api_ = other.api_;
      event_ = std::exchange(other.event_, nullptr);
    }
    return *this;
  }
  ~Event() { destroy(); }

  explicit operator bool() const noexcept { return event_ != nullptr; }
  PJRT_Event* get() const noexcept { return event_; }

  bool is_ready() const;

  // Waits (in a BlockingRegion, unless ready already), then throws the event's error if it has one.
  void await(std::string_view what_was_asked = "wait for a device") const;

  // The error of a ready event. Never waits: empty if there is none or it is not known yet.
  std::optional<Error> error() const;

  // Calls `callback(const Error*)` once, when ready: null without error. It runs on a thread of the
  // runtime, or on this one before the call returns, so it must not wait, take the GIL or destroy
  // PJRT objects. It is destroyed there after it ran.
  template <typename Callback>
  void on_ready(Callback&& callback) const {
    using Stored = std::decay_t<Callback>;
    static_assert(std::is_nothrow_invocable_v<Stored&, const Error*>,
                  "an event's callback is noexcept");
    struct Box final : CallbackBox {
      explicit Box(Callback&& value) : stored(std::forward<Callback>(value)) {}
      void run(const Error* error) noexcept override { stored(error); }
      Stored stored;
    };
    register_callback(std::make_unique<Box>(std::forward<Callback>(callback)));
  }

 private:
  struct CallbackBox {
    virtual ~CallbackBox() = default;
    virtual void run(const Error* error) noexcept = 0;
    const PJRT_Api* api = nullptr;
  };

  void destroy() noexcept;
  void register_callback(std::unique_ptr<CallbackBox> box) const;

  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace torch_pjrt::pjrt
