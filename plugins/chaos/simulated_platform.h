#pragma once

#include <functional>
#include <string>

#include "events.h"
#include "pjrt_c_api.h"

namespace pjrt_chaos {

// The option `simulates`: the wrapped plugin's memory gets the addresses of a simulated accelerator
// (plugins/simulated_accelerator), which the host cannot touch, and its streams order the buffers.

// Loads the simulator's library. What is wrong, or an empty text.
std::string load_simulator(const std::string& path);

// The platform's name; null without simulator.
const char* simulated_platform_name() noexcept;

// The stream extension in front of `next`; `next` without simulator.
PJRT_Extension_Base* with_stream_extension(PJRT_Extension_Base* next);

// Around a call: before it, device addresses become real ones and streams are waited for; after it
// the caller's arguments are as they were, and addresses that it gives out the device's.
template <typename Args>
struct SimulatedCall {
  explicit SimulatedCall(Args&) noexcept {}
  PJRT_Error* before() { return nullptr; }
  void after() {}
};

template <>
class SimulatedCall<PJRT_Client_CreateViewOfDeviceBuffer_Args> {
 public:
  explicit SimulatedCall(PJRT_Client_CreateViewOfDeviceBuffer_Args& args);
  ~SimulatedCall();
  SimulatedCall(const SimulatedCall&) = delete;
  SimulatedCall& operator=(const SimulatedCall&) = delete;

  PJRT_Error* before();
  void after();

 private:
  struct OnDelete;

  PJRT_Client_CreateViewOfDeviceBuffer_Args& args_;
  const PJRT_Client_CreateViewOfDeviceBuffer_Args asked_;
  OnDelete* on_delete_ = nullptr;  // the wrapped plugin's, once the call has succeeded
};

// Calls that read a buffer: wait for the stream on which its contents come.
#define CHAOS_READS(function)                                      \
  template <>                                                      \
  struct SimulatedCall<function##_Args> {                          \
    explicit SimulatedCall(function##_Args& args) : args_(args) {} \
    PJRT_Error* before();                                          \
    void after() {}                                                \
    function##_Args& args_;                                        \
  }
CHAOS_READS(PJRT_LoadedExecutable_Execute);
CHAOS_READS(PJRT_Buffer_ToHostBuffer);
CHAOS_READS(PJRT_Buffer_CopyRawToHost);
CHAOS_READS(PJRT_Buffer_CopyToDevice);
CHAOS_READS(PJRT_Buffer_CopyToMemory);
CHAOS_READS(PJRT_Buffer_Destroy);
#undef CHAOS_READS

// Calls that give out an address.
#define CHAOS_ADDRESS(function)                                    \
  template <>                                                      \
  struct SimulatedCall<function##_Args> {                          \
    explicit SimulatedCall(function##_Args& args) : args_(args) {} \
    PJRT_Error* before() { return nullptr; }                       \
    void after();                                                  \
    function##_Args& args_;                                        \
  }
CHAOS_ADDRESS(PJRT_Buffer_UnsafePointer);
CHAOS_ADDRESS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer);
#undef CHAOS_ADDRESS

// What the event of a buffer whose contents come on a stream waits for besides; empty for others.
Completion contents_of_stream(const PJRT_Buffer* buffer);
template <typename Args>
Completion contents_of_stream(const Args&) {
  return {};
}
inline Completion contents_of_stream(const PJRT_Buffer_ReadyEvent_Args& args) {
  return contents_of_stream(args.buffer);
}

}  // namespace pjrt_chaos
