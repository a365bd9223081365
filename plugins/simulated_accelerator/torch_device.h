#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <functional>

#include "abi.h"

namespace simulated {

inline const SimulatedAccelerator& accelerator() {
  static const SimulatedAccelerator& table = *simulated_accelerator();
  return table;
}

// Memory of the current device. What is freed is given out again at once, as by allocators that
// rely on the order of one stream.
c10::Allocator& allocator();

// The real memory behind a device address; throws for any other address.
void* real(const void* device_address);

// Runs `work` late, on the calling thread's current stream of a device.
void enqueue(c10::Device device, std::function<void()> work);
void synchronize(c10::Device device);  // waits for the current stream

}  // namespace simulated
