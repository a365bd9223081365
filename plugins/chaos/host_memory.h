#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "events.h"
#include "pjrt_c_api.h"

namespace pjrt_chaos {

// The places of an array in host memory: one run of bytes without `byte_strides`.
struct HostPlaces {
  char* data = nullptr;
  size_t item = 0;  // bytes of an element, or of the whole without dimensions
  std::vector<int64_t> dimensions;
  std::vector<int64_t> byte_strides;
};

// Watches the host memory of a call while it lives, and, by the completion of the call's event,
// until that is ready. For all but the calls below it does nothing.
template <typename Args>
struct HostMemoryWatch {
  explicit HostMemoryWatch(Args&) noexcept {}
  Completion completion() { return {}; }
};

// Keeps a copy of a source, and compares.
class SourceWatch {
 public:
  Completion completion();

 protected:
  void watch(HostPlaces places, const char* function);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

template <>
class HostMemoryWatch<PJRT_Client_BufferFromHostBuffer_Args> : public SourceWatch {
 public:
  explicit HostMemoryWatch(PJRT_Client_BufferFromHostBuffer_Args& args);
};
template <>
class HostMemoryWatch<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>
    : public SourceWatch {
 public:
  explicit HostMemoryWatch(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args);
};

// Has the wrapped plugin write elsewhere, and fills the target with a pattern until the event.
class TargetWatch {
 public:
  // To be called after the call has succeeded.
  Completion completion();

 protected:
  ~TargetWatch() = default;
  // Returns where the wrapped plugin is to write in the target's place, with as much `room` as the
  // caller said there is.
  void* watch(void* target, size_t bytes, size_t room);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

template <>
class HostMemoryWatch<PJRT_Buffer_ToHostBuffer_Args> : public TargetWatch {
 public:
  explicit HostMemoryWatch(PJRT_Buffer_ToHostBuffer_Args& args);
  ~HostMemoryWatch() { args_.dst = target_; }
  HostMemoryWatch(const HostMemoryWatch&) = delete;
  HostMemoryWatch& operator=(const HostMemoryWatch&) = delete;

 private:
  PJRT_Buffer_ToHostBuffer_Args& args_;
  void* target_;
};
template <>
class HostMemoryWatch<PJRT_Buffer_CopyRawToHost_Args> : public TargetWatch {
 public:
  explicit HostMemoryWatch(PJRT_Buffer_CopyRawToHost_Args& args);
  ~HostMemoryWatch() { args_.dst = target_; }
  HostMemoryWatch(const HostMemoryWatch&) = delete;
  HostMemoryWatch& operator=(const HostMemoryWatch&) = delete;

 private:
  PJRT_Buffer_CopyRawToHost_Args& args_;
  void* target_;
};

}  // namespace pjrt_chaos
