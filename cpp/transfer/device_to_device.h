#pragma once

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/device.h"

namespace torch_pjrt::transfer {

// Copies a buffer to a device of the same client or of another one; the result never shares
// memory with the source. The plugin does it, without waiting, between two devices of a client
// where it can. Else the bytes go through host memory, which waits for the buffer (BlockingRegion).
//
// Throws pjrt::Error. Counts transfer.device_to_device.{calls,bytes} and those that went through
// the host as transfer.device_to_device.bounced.{calls,bytes}.
pjrt::Buffer device_to_device(const pjrt::Client& source_client, const pjrt::Buffer& buffer,
                              const pjrt::Client& target_client, pjrt::Device device);

}  // namespace torch_pjrt::transfer
