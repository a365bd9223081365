#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "pjrt/device.h"
#include "pjrt/element_type.h"
#include "pjrt/event.h"
#include "pjrt/memory.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// Owns an array on a device. Destroying it does not wait for the device, but may run the done event
// of a zero-copy source on this thread: hold no lock then. The client must outlive it.
// A buffer may be used before its contents are ready: later work on the device waits for it.
class Buffer {
 public:
  Buffer() noexcept = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) noexcept;  // takes ownership
  Buffer(Buffer&& other) noexcept
      : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { destroy(); }

  explicit operator bool() const noexcept { return buffer_ != nullptr; }
  PJRT_Buffer* get() const noexcept { return buffer_; }
  const PJRT_Api* api() const noexcept { return api_; }

  ElementType element_type() const;
  // Lives as long as the buffer.
  std::span<const int64_t> dimensions() const;
  size_t on_device_bytes() const;
  Device device() const;
  Memory memory() const;
  bool is_on_cpu() const;

  // Ready when the contents are, with the error of what computed them. An error at once if the
  // buffer is deleted or donated.
  Event ready_event() const;

  bool is_deleted() const;
  // Frees the device memory as soon as work that uses it is done; external references keep it.
  void delete_now();

  // Copies the contents, dense and row-major (or with `byte_strides`, one a dimension), to `dst`
  // of `bytes`, which must stay until the event is ready. Does not wait.
  Event copy_to_host(void* dst, size_t bytes, std::span<const int64_t> byte_strides = {}) const;
  // Copies `bytes` from `offset` of the device's own representation.
  Event copy_raw_to_host(void* dst, size_t offset, size_t bytes) const;

  Buffer copy_to_device(Device device) const;
  Buffer copy_to_memory(Memory memory) const;

  // The address of the contents in the device's memory; opaque is for other libraries (DLPack).
  // Both may wait until the memory exists (XLA CPU: until what the computation reads is ready), so
  // they are a BlockingRegion. They do not wait for the contents: await ready_event() for that.
  // Neither keeps the buffer alive.
  void* device_pointer() const;
  uintptr_t unsafe_pointer() const;

  // While a reference is held the memory is neither freed, moved nor donated. The buffer must not
  // be destroyed before it is dropped.
  void add_external_reference();
  void drop_external_reference() noexcept;

 private:
  void destroy() noexcept;

  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace torch_pjrt::pjrt
