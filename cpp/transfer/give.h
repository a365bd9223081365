#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "pjrt/client.h"
#include "transfer/host_memory_pool.h"
#include "transfer/in_flight.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::transfer {

// The steps in which host memory, dense and row-major, is given to a plugin; the transfers choose
// among them. All throw pjrt::Error and wait for nothing but what they say.

// The bytes of an array in host memory: a type below 8 bits takes a byte an element there.
size_t item_bytes(pjrt::ElementType type) noexcept;
size_t array_bytes(const pjrt::ArraySpec& array) noexcept;

// The raw call. `data` may be null for an array without elements. Throws kInvalidArgument for a
// type without data, for which plugins end the process.
pjrt::HostTransfer give(const pjrt::Client& client, pjrt::Device device, const void* data,
                        const pjrt::ArraySpec& array, pjrt::HostBufferSemantics semantics);

// The plugin has read the memory when the call returns.
pjrt::Buffer give_during_call(const pjrt::Client& client, pjrt::Device device, const void* data,
                              const pjrt::ArraySpec& array);

// Calls `let_go` once when the device needs the memory no more, on any thread, perhaps before this
// returns: it may take leaf locks only. If that cannot be arranged, waits for the end of the
// transfer, calls it and throws.
template <typename LetGo>
pjrt::Buffer until_done(pjrt::HostTransfer given, LetGo let_go) {
  try {
    given.done_with_host_buffer.on_ready([let_go](const pjrt::Error*) noexcept { let_go(); });
  } catch (...) {
    // Without the buffer the device lets go of the memory; if even that cannot be waited for, what
    // keeps it leaks.
    given.buffer = {};
    given.done_with_host_buffer.await("wait for the end of a failed transfer");
    let_go();
    throw;
  }
  return std::move(given.buffer);
}

// Memory that `holder` keeps until the device needs it no more; the reclaimer destroys it.
pjrt::Buffer give_held(const pjrt::Client& client, pjrt::Device device, const void* data,
                       const pjrt::ArraySpec& array, pjrt::HostBufferSemantics semantics,
                       std::unique_ptr<Holder> holder);

// A pool block: it becomes the buffer's memory where the device uses host memory, else it is read
// by the device and then given back to the pool.
pjrt::Buffer give_block(const pjrt::Client& client, pjrt::Device device,
                        const pjrt::ArraySpec& array, HostBlock block, InFlight share = {});

}  // namespace torch_pjrt::transfer
