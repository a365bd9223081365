#pragma once

#include <cstddef>

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/device.h"
#include "transfer/host_to_device.h"

namespace torch_pjrt::transfer {

// From this size on an array goes in pieces, where the host cannot address the device's memory.
constexpr size_t kChunkedTransfer = size_t{16} << 20;

// Copies an array through the plugin's transfer manager: while some pieces of pool memory are on
// their way, the next is filled. Waits (BlockingRegion) until the device has read the last piece,
// so it holds no more than 32 MiB of host memory at any time, and the source is not read after the
// call.
//
// Empty where the plugin has no transfer manager, or keeps the array in another order than
// row-major. Throws pjrt::Error, and then the device reads nothing more.
pjrt::Buffer chunked_to_device(const pjrt::Client& client, pjrt::Device device,
                               const HostSource& source);

}  // namespace torch_pjrt::transfer
