#pragma once

#include <ATen/dlpack.h>

#include <cstdint>
#include <optional>

namespace torch_pjrt::dlpack {

// What `stream` of `__dlpack__` asks for, by the array API's rules for the device.
struct RequestedStream {
  enum class Kind : uint8_t {
    kNone,     // no order: the consumer sees to it, or the device has no streams
    kDefault,  // the device's default stream, of which the array API knows no handle
    kHandle,   // the stream with `handle`, as the platform has it (a cudaStream_t)
    kInvalid,  // the device has no such stream
  };
  Kind kind = Kind::kNone;
  intptr_t handle = 0;

  bool operator==(const RequestedStream&) const = default;
};

// `stream`: empty for None.
//   CUDA    None and 1 the legacy default stream, 2 the default stream of the thread, above 2 a
//           handle; 0 could be either of the first two, so that it is none
//   ROCm    None and 0 the default stream, above 2 a handle
//   host    None
//   others  None the default stream, above 2 a handle
// and -1 no order, everywhere.
RequestedStream requested_stream(DLDeviceType device, std::optional<int64_t> stream) noexcept;

// The number by which a producer is told of a stream with this handle.
int64_t stream_number(DLDeviceType device, intptr_t handle) noexcept;

}  // namespace torch_pjrt::dlpack
