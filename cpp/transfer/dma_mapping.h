#pragma once

#include <memory>

#include "pjrt/client.h"

namespace torch_pjrt::transfer {

// Registers the pool's large blocks with the client for direct memory access, from now on, where
// the device reads host memory and the plugin can (PJRT_Client_DmaMap). The client is kept for
// good. False where it cannot, or has no use for it since the device computes in host memory.
// Throws pjrt::Error where a probe meets what may pass (see pjrt/probe.h).
bool map_pool_memory(std::shared_ptr<const pjrt::Client> client);

}  // namespace torch_pjrt::transfer
