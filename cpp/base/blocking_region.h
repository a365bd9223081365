#pragma once

namespace torch_pjrt::base {

// Called when a thread enters and leaves a region where it may wait for a device or a compiler.
// `enter` returns a token that `leave` gets; null if there is nothing to undo, and then `leave` is
// not called. The Python bindings release and take the GIL here, when the thread holds it.
struct BlockingHooks {
  void* (*enter)() noexcept = nullptr;
  void (*leave)(void* token) noexcept = nullptr;
};

// `hooks` must outlive every use, or be null for none. Regions already entered keep their own.
void set_blocking_hooks(const BlockingHooks* hooks) noexcept;

// Marks such a region for the current thread. Regions may nest. No lock that another thread could
// want while it holds the GIL may be held when a region begins or ends.
class BlockingRegion {
 public:
  BlockingRegion() noexcept;
  ~BlockingRegion();
  BlockingRegion(const BlockingRegion&) = delete;
  BlockingRegion& operator=(const BlockingRegion&) = delete;

 private:
  const BlockingHooks* hooks_;
  void* token_ = nullptr;
};

}  // namespace torch_pjrt::base
