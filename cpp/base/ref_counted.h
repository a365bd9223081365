#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace torch_pjrt::base {

// A pointer of one word to an object that counts its own references: T has
// `void add_reference() noexcept` and `void release_reference() noexcept`.
template <typename T>
class RefPtr {
 public:
  RefPtr() noexcept = default;
  explicit RefPtr(T* pointer) noexcept : pointer_(pointer) {
    if (pointer_) pointer_->add_reference();
  }
  RefPtr(const RefPtr& other) noexcept : RefPtr(other.pointer_) {}
  RefPtr(RefPtr&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~RefPtr() {
    if (pointer_) pointer_->release_reference();
  }

  T* get() const noexcept { return pointer_; }
  T* operator->() const noexcept { return pointer_; }
  T& operator*() const noexcept { return *pointer_; }
  explicit operator bool() const noexcept { return pointer_ != nullptr; }
  T* release() noexcept { return std::exchange(pointer_, nullptr); }
  friend bool operator==(const RefPtr& a, const RefPtr& b) noexcept = default;

 private:
  T* pointer_ = nullptr;
};

// The count itself, for types that are destroyed by plain `delete`.
template <typename Derived>
class RefCounted {
 public:
  void add_reference() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void release_reference() noexcept {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<Derived*>(this);
  }
  uint32_t reference_count() const noexcept { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint32_t> count_{0};
};

}  // namespace torch_pjrt::base
