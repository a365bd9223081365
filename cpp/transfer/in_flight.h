#pragma once

#include <cstddef>
#include <utility>

namespace torch_pjrt::transfer {

// A share of the host memory that transfers may hold while a device reads it. Given back when
// destroyed, on any thread: that takes a leaf lock only.
class InFlight {
 public:
  InFlight() noexcept = default;
  InFlight(InFlight&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  InFlight& operator=(InFlight&& other) noexcept {
    if (this != &other) {
      release();
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~InFlight() { release(); }

  // Waits (BlockingRegion) until the bytes fit under the limit; what is larger than the limit goes
  // alone. The caller must hold no other share, which could be what it waits for.
  //
  // Gauge: transfer.in_flight_bytes. Counter: transfer.in_flight_waits; timer:
  // transfer.in_flight_wait_seconds.
  static InFlight reserve(size_t bytes);

  // Of the process; 1 GiB by default.
  static void set_limit(size_t bytes) noexcept;
  static size_t limit() noexcept;

 private:
  explicit InFlight(size_t bytes) noexcept : bytes_(bytes) {}
  void release() noexcept;

  size_t bytes_ = 0;
};

}  // namespace torch_pjrt::transfer
