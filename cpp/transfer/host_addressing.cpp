#include "transfer/host_addressing.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/error.h"
#include "transfer/host_memory_pool.h"

namespace torch_pjrt::transfer {
namespace {

bool probe(const pjrt::Client& client) {
  constexpr int64_t bytes = 4096;
  if (client.addressable_devices().empty()) return false;
  HostBlock block = HostMemoryPool::shared().allocate(bytes);
  try {
    pjrt::HostArray array;
    array.data = block.data();
    array.type = pjrt::ElementType::kU8;
    array.dimensions = {&bytes, 1};
    array.semantics = pjrt::HostBufferSemantics::kMutableZeroCopy;
    array.device = client.addressable_devices().front();
    pjrt::HostTransfer given = client.buffer_from_host(array);
    bool same = false;
    try {
      given.buffer.ready_event().await("probe for host memory");
      same = given.buffer.is_on_cpu() && given.buffer.device_pointer() == block.data();
    } catch (const pjrt::Error&) {
      // a device whose memory has no address
    }
    given.buffer = {};
    given.done_with_host_buffer.await("probe for host memory");
    return same;
  } catch (const pjrt::Error&) {
    return false;
  }
}

std::atomic<bool> sharing{true};

struct Known {
  const pjrt::Client* client;
  const PJRT_Client* handle;  // tells a new client at an old one's address apart
  bool answer;
};

std::shared_mutex& known_mutex() {
  static auto* const mutex = new std::shared_mutex;
  return *mutex;
}

std::vector<Known>& known() {
  static auto* const list = new std::vector<Known>;
  return *list;
}

}  // namespace

void set_host_memory_sharing(bool on) noexcept { sharing = on; }

bool uses_host_memory(const pjrt::Client& client) {
  if (!sharing.load(std::memory_order_relaxed)) return false;
  {
    std::shared_lock lock(known_mutex());
    for (const Known& entry : known()) {
      if (entry.client == &client && entry.handle == client.get()) return entry.answer;
    }
  }
  const bool answer = probe(client);  // without the lock: it waits
  std::unique_lock lock(known_mutex());
  std::erase_if(known(), [&](const Known& entry) { return entry.client == &client; });
  known().push_back({&client, client.get(), answer});
  return answer;
}

}  // namespace torch_pjrt::transfer
