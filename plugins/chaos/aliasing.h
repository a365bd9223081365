#pragma once

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// An error if the call shares memory and that is refused; null for all other calls.
template <typename Args>
PJRT_Error* refuse_aliasing(const Args&) {
  return nullptr;
}
PJRT_Error* refuse_aliasing(const PJRT_Client_CreateViewOfDeviceBuffer_Args&);
PJRT_Error* refuse_aliasing(const PJRT_Buffer_UnsafePointer_Args&);
PJRT_Error* refuse_aliasing(const PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args&);

// While it lives, a call that may share memory asks for a copy instead.
template <typename Args>
struct CopyInstead {
  explicit CopyInstead(Args&) noexcept {}
};
template <>
class CopyInstead<PJRT_Client_BufferFromHostBuffer_Args> {
 public:
  explicit CopyInstead(PJRT_Client_BufferFromHostBuffer_Args& args) noexcept;
  ~CopyInstead() { args_.host_buffer_semantics = asked_; }
  CopyInstead(const CopyInstead&) = delete;
  CopyInstead& operator=(const CopyInstead&) = delete;

 private:
  PJRT_Client_BufferFromHostBuffer_Args& args_;
  PJRT_HostBufferSemantics asked_;
};

// Changes an answer that would promise sharing.
template <typename Args>
void deny_aliasing(Args&) noexcept {}
void deny_aliasing(PJRT_Buffer_IsOnCpu_Args& args) noexcept;

}  // namespace pjrt_chaos
