#include "aten/pool_allocator.h"

#include <utility>

#include "transfer/strided_copy.h"

namespace torch_pjrt::aten {
namespace {

using transfer::HostBlock;

void delete_block(void* block) noexcept { delete static_cast<HostBlock*>(block); }

class PoolAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
    auto* block = new HostBlock(transfer::HostMemoryPool::shared().allocate(bytes));
    return {block->data(), block, &delete_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    transfer::parallel_memcpy(to, from, bytes);
  }
};

PoolAllocator allocator;

}  // namespace

c10::Allocator& pool_allocator() noexcept { return allocator; }

HostBlock* pool_block_of(const c10::DataPtr& data) noexcept {
  return data.get_deleter() == &delete_block ? static_cast<HostBlock*>(data.get_context())
                                             : nullptr;
}

}  // namespace torch_pjrt::aten
