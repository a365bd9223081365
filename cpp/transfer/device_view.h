#pragma once

#include <cstdint>
#include <memory>

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::transfer {

// A buffer that shares memory of the device itself, dense and row-major, which others own and
// nobody writes until the holder is destroyed: by the reclaimer, once the device needs the memory
// no more. `stream` orders the contents (see Client::create_view). Throws pjrt::Error; the holder
// is destroyed then.
pjrt::Buffer view_device_memory(const pjrt::Client& client, pjrt::Device device, const void* data,
                                const pjrt::ArraySpec& array, std::unique_ptr<Holder> holder,
                                intptr_t stream);

}  // namespace torch_pjrt::transfer
