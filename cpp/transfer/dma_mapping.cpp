#include "transfer/dma_mapping.h"

#include <exception>
#include <utility>

#include "base/metrics.h"
#include "pjrt/probe.h"
#include "transfer/host_addressing.h"
#include "transfer/host_memory_pool.h"

namespace torch_pjrt::transfer {
namespace {

class ClientMapping final : public MemoryMapping {
 public:
  explicit ClientMapping(std::shared_ptr<const pjrt::Client> client) : client_(std::move(client)) {}

  bool map(void* data, size_t bytes) noexcept override {
    try {
      client_->dma_map(data, bytes);
      return true;
    } catch (const std::exception&) {
      base::counter("pool.mapping_errors").add();  // the memory works without, only slower
      return false;
    }
  }
  void unmap(void* data) noexcept override {
    try {
      client_->dma_unmap(data);
    } catch (const std::exception&) {
      base::counter("pool.mapping_errors").add();
    }
  }

 private:
  std::shared_ptr<const pjrt::Client> client_;
};

}  // namespace

bool map_pool_memory(std::shared_ptr<const pjrt::Client> client) {
  const pjrt::Plugin& plugin = client->plugin();
  if (uses_host_memory(*client) || !plugin.supports(&PJRT_Api::PJRT_Client_DmaMap) ||
      !plugin.supports(&PJRT_Api::PJRT_Client_DmaUnmap)) {
    return false;
  }
  HostBlock block = HostMemoryPool::shared().allocate(HostMemoryPool::kHugePage);
  const bool maps = pjrt::probe([&] {
    client->dma_map(block.data(), block.capacity());
    client->dma_unmap(block.data());
    return true;
  });
  if (!maps) return false;
  HostMemoryPool::shared().set_mapping(std::make_shared<ClientMapping>(std::move(client)));
  return true;
}

}  // namespace torch_pjrt::transfer
