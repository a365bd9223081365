#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>

namespace torch_pjrt::transfer {

// Something that must stay alive until the device no longer needs it; destroying it lets go.
class Holder {
 public:
  Holder() noexcept = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  virtual ~Holder() = default;

 private:
  friend class Reclaimer;
  Holder* next_ = nullptr;
};

// A holder that keeps one value of any movable type.
template <typename T>
std::unique_ptr<Holder> hold(T value) {
  struct ValueHolder final : Holder {
    explicit ValueHolder(T v) : value(std::move(v)) {}
    T value;
  };
  return std::make_unique<ValueHolder>(std::move(value));
}

// Destroys holders on a thread of its own, in the order they came.
//
// PJRT's callbacks run on runtime threads, or inside the destruction of a buffer on ours, with
// locks held that we do not know. They may only push here. The destruction of a holder may then
// take the GIL, free a tensor or return pool memory.
// The object is never destroyed; the thread starts at the first push.
class Reclaimer {
 public:
  static Reclaimer& instance() noexcept;

  // Takes a holder (null is ignored). Lock-free but for the first call, safe on any thread.
  void reclaim(std::unique_ptr<Holder> holder) noexcept;

  // Waits until all that was pushed before the call is destroyed; false when the time is up
  // first. Marks a blocking region. True at once on the reclaimer's own thread, when nothing was
  // ever pushed, after abandon(), and in a forked child.
  bool drain(std::chrono::milliseconds timeout) noexcept;

  // From now on nothing is destroyed: what is queued or comes later is leaked. For interpreter
  // exit, after drain(). A destruction that has begun goes on; the call does not wait for it.
  void abandon() noexcept;

  // Holders taken and not destroyed yet.
  size_t pending() const noexcept;

 private:
  Reclaimer() noexcept;
  void start() noexcept;
  void work() noexcept;
  void become_inert() noexcept;

  struct State;
  State* state_;
};

}  // namespace torch_pjrt::transfer
