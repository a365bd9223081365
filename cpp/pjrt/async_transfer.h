#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "pjrt/buffer.h"
#include "pjrt/error.h"
#include "pjrt/event.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// Owns PJRT's transfer manager: buffers that exist at once and are filled from the host piece by
// piece. Each buffer becomes ready after its last piece. Client::create_async_transfer makes it.
class AsyncTransfer {
 public:
  AsyncTransfer() noexcept = default;
  AsyncTransfer(const PJRT_Api* api, PJRT_AsyncHostToDeviceTransferManager* manager) noexcept
      : api_(api), manager_(manager) {}
  AsyncTransfer(AsyncTransfer&& other) noexcept
      : api_(other.api_), manager_(std::exchange(other.manager_, nullptr)) {}
  AsyncTransfer& operator=(AsyncTransfer&& other) noexcept;
  ~AsyncTransfer() { destroy(); }

  explicit operator bool() const noexcept { return manager_ != nullptr; }

  size_t buffer_count() const;
  size_t buffer_bytes(int index) const;

  // Takes buffer `index` out; once each.
  Buffer retrieve(int index);

  // Copies a piece to `offset` of a buffer; `data` must stay until the event is ready.
  Event transfer(int index, const void* data, size_t offset, size_t bytes, bool is_last);

  // Gives a buffer an error instead of its remaining pieces.
  void set_error(int index, ErrorCode code, std::string_view message);

 private:
  void destroy() noexcept;

  const PJRT_Api* api_ = nullptr;
  PJRT_AsyncHostToDeviceTransferManager* manager_ = nullptr;
};

}  // namespace torch_pjrt::pjrt
