#include "aten/storage.h"

#include <c10/core/DeviceGuard.h>

#include <new>
#include <utility>

#include "aten/device.h"
#include "base/address_space.h"
#include "graph/runtime.h"

namespace torch_pjrt::aten {
namespace {

constexpr size_t kAddresses = size_t{1} << 45;  // of the 47 bits that a process has
constexpr size_t kChunk = size_t{16} << 20;

base::AddressSpace& addresses() {
  static auto* const space = [] {
    try {
      return new base::AddressSpace(kAddresses, kChunk);
    } catch (const std::bad_alloc&) {
      TORCH_CHECK(false, "reserve addresses for xla storages: mmap of ", kAddresses,
                  " bytes without access failed; raise the limit on address space (ulimit -v)");
    }
  }();
  return *space;
}

void* take_addresses(size_t bytes) {
  try {
    return addresses().take(bytes);
  } catch (const std::bad_alloc&) {
    TORCH_CHECK(false, "make an xla storage: no addresses are left for it; got ", bytes,
                " bytes, expected at most ", kAddresses, " in all storages together; free some");
  }
}

// A cell and the addresses that stand for its bytes.
struct StoredCell final : graph::Cell {
  StoredCell(graph::Executor& executor, size_t bytes)
      : Cell(executor), bytes(bytes), address(take_addresses(bytes)) {}
  ~StoredCell() { addresses().give_back(address, bytes); }

  size_t bytes;
  void* address;
};

void delete_cell(void* cell) noexcept { delete static_cast<StoredCell*>(cell); }

c10::DataPtr data_of(StoredCell* cell) {
  return {cell->address, cell, &delete_cell,
          c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(cell->executor().index()))};
}

c10::DataPtr make_data(graph::Executor& executor, size_t bytes) {
  return data_of(new StoredCell(executor, bytes));
}

StoredCell& stored_cell_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  TORCH_CHECK(data.get_deleter() == &delete_cell,
              "use a tensor as xla data: its storage does not belong to torch-pjrt; got a storage "
              "on device ",
              storage.device(), "; make the tensor with .to('xla')");
  return *static_cast<StoredCell*>(data.get_context());
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

graph::Cell& cell_of(const c10::StorageImpl& storage) { return stored_cell_of(storage); }

void grow_storage(c10::StorageImpl& storage, size_t bytes) {
  StoredCell& cell = stored_cell_of(storage);
  if (bytes > cell.bytes) {
    void* const address = take_addresses(bytes);
    addresses().give_back(std::exchange(cell.address, address), std::exchange(cell.bytes, bytes));
    storage.mutable_data_ptr().release_context();
    storage.set_data_ptr_noswap(data_of(&cell));
  }
  storage.set_nbytes(bytes);
}

}  // namespace torch_pjrt::aten
