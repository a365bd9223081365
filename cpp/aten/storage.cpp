#include "aten/storage.h"

#include <c10/core/DeviceGuard.h>
#include <sys/mman.h>

#include <atomic>

#include "aten/device.h"
#include "graph/runtime.h"

namespace torch_pjrt::aten {
namespace {

constexpr size_t kRange = size_t{1} << 45;
constexpr size_t kGranule = 64;

char* reserved_range() {
  static char* const range = [] {
    void* memory =
        mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(memory != MAP_FAILED, "reserve addresses for xla storages: mmap of ", kRange,
                " bytes without access failed; raise the limit on address space (ulimit -v)");
    return static_cast<char*>(memory);
  }();
  return range;
}

// Addresses are handed out in a ring of 32 TiB.
void* next_address(size_t bytes) {
  static std::atomic<size_t> next{0};
  static char* const range = reserved_range();
  const size_t need = (bytes + kGranule) & ~(kGranule - 1);
  size_t at = next.fetch_add(need, std::memory_order_relaxed) % kRange;
  if (at + need > kRange) at = 0;
  return range + at;
}

void delete_cell(void* cell) noexcept { delete static_cast<graph::Cell*>(cell); }

c10::DataPtr make_data(graph::Executor& executor, size_t bytes) {
  return {next_address(bytes), new graph::Cell(executor), &delete_cell,
          c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(executor.index()))};
}

class CellAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return make_data(graph::runtime::executor(current_device()), bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false,
                "copy an xla storage by address: its contents are not host memory; use "
                "tensors (Tensor.copy_, Tensor.clone) instead");
  }
};

CellAllocator allocator;
REGISTER_ALLOCATOR(c10::kXLA, &allocator);

}  // namespace

c10::Allocator& cell_allocator() noexcept { return allocator; }

c10::Storage make_storage(graph::Executor& executor, size_t bytes) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t{}, bytes,
                                               make_data(executor, bytes), &allocator,
                                               /*resizable=*/true);
}

graph::Cell& cell_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  TORCH_CHECK(data.get_deleter() == &delete_cell,
              "use a tensor as xla data: its storage does not belong to torch-pjrt; got a storage "
              "on device ",
              storage.device(), "; make the tensor with .to('xla')");
  return *static_cast<graph::Cell*>(data.get_context());
}

}  // namespace torch_pjrt::aten
