#pragma once

#include <cstdint>
#include <optional>

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/device.h"

namespace torch_pjrt::pjrt {

// Order between a device and streams that others own, by PJRT's stream extension. A stream is the
// platform's own handle (a cudaStream_t).

// The stream by which the device learns that outside memory is ready: what Client::create_view is
// given after others have made it wait for their work. Empty if the plugin has no such stream.
std::optional<intptr_t> stream_for_ready_events(const Client& client, Device device);

// Makes later work on `stream` wait for the buffer's contents; the host does not wait where the
// platform can order by events. False if the plugin cannot. Throws Error if the buffer has failed.
bool wait_on_stream(const Client& client, const Buffer& buffer, intptr_t stream);

}  // namespace torch_pjrt::pjrt
