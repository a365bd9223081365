#include "dlpack/requested_stream.h"

namespace torch_pjrt::dlpack {
namespace {

// CUDA's own names of its default streams, as handles: cudaStreamLegacy, cudaStreamPerThread.
constexpr int64_t kCudaLegacy = 1;
constexpr int64_t kLastReserved = 2;

}  // namespace

RequestedStream requested_stream(DLDeviceType device, std::optional<int64_t> stream) noexcept {
  using Kind = RequestedStream::Kind;
  if (stream == -1) return {};
  const auto handle = [](int64_t number) {
    return RequestedStream{Kind::kHandle, static_cast<intptr_t>(number)};
  };
  const bool is_pointer = stream && *stream > kLastReserved;
  switch (device) {
    case kDLCPU:
      return {stream ? Kind::kInvalid : Kind::kNone};
    case kDLCUDA:
      if (!stream) return handle(kCudaLegacy);
      return *stream > 0 ? handle(*stream) : RequestedStream{Kind::kInvalid};
    case kDLROCM:
      if (!stream) return handle(0);
      return is_pointer || *stream == 0 ? handle(*stream) : RequestedStream{Kind::kInvalid};
    default:
      if (!stream) return {Kind::kDefault};
      return is_pointer ? handle(*stream) : RequestedStream{Kind::kInvalid};
  }
}

int64_t stream_number(DLDeviceType device, intptr_t handle) noexcept {
  return device == kDLCUDA && handle == 0 ? kCudaLegacy : static_cast<int64_t>(handle);
}

}  // namespace torch_pjrt::dlpack
