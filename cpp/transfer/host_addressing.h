#pragma once

#include "pjrt/client.h"

namespace torch_pjrt::transfer {

// Whether the client's devices compute in memory that the host can address, and take ours as it
// is. Found once per client, by giving it a block and comparing pointers; a plugin that cannot tell
// is an answer. Throws pjrt::Error for what may pass (see pjrt/probe.h): the next call asks again.
bool uses_host_memory(const pjrt::Client& client);

// Off: transfers treat every device as one whose memory the host cannot address. For comparisons,
// for tests, and for a plugin whose answers are not to be trusted. On by default.
void set_host_memory_sharing(bool on) noexcept;

}  // namespace torch_pjrt::transfer
