#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pjrt/client.h"
#include "pjrt/element_type.h"

struct TorchPjrt_FfiCallFrame;

namespace torch_pjrt::pjrt {

// Functions of this process that programs call (stablehlo.custom_call with api_version 4), by
// PJRT's FFI extension.

struct ForeignBuffer {
  ElementType element;
  void* data;  // dense, in the layout that the call in the program names
  std::span<const int64_t> dimensions;
};

struct ForeignCall {
  std::span<const ForeignBuffer> arguments;  // not to be written
  std::span<const ForeignBuffer> results;    // to be written whole
  std::span<const int64_t> options;          // the call's `options = array<i64: ...>`
};

// One function, by the name that programs call it by. Instances are static.
struct ForeignFunction {
  using Run = void (*)(const ForeignCall&);
  using Handler = void* (*)(TorchPjrt_FfiCallFrame*);

  std::string_view name;
  Handler handler;
};

// What XLA calls for `run`: gives it the call's buffers, and makes what it throws the error of the
// execution.
void* run_foreign(TorchPjrt_FfiCallFrame* frame, ForeignFunction::Run run) noexcept;

// `run` is called on the device's threads, several at once, without the GIL. It may not wait for
// anything of this device.
template <ForeignFunction::Run run>
constexpr ForeignFunction foreign_function(std::string_view name) {
  return {name, [](TorchPjrt_FfiCallFrame* frame) { return run_foreign(frame, run); }};
}

// Whether programs of this client may call functions that work on host memory: XLA's CPU devices.
bool calls_host_functions(const Client& client);

// Makes the function known to the client's plugin, once. Throws Error if the plugin refuses it.
void provide(const Client& client, const ForeignFunction& function);

}  // namespace torch_pjrt::pjrt
