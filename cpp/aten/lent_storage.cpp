#include "aten/lent_storage.h"

#include <c10/core/impl/COW.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mutex>
#include <utility>

#include "aten/accelerator_memory.h"
#include "aten/copy_figures.h"
#include "aten/pool_allocator.h"
#include "aten/shared_storage.h"

namespace torch_pjrt::aten {

#if TORCH_PJRT_HAS_MATERIALIZER
namespace {

void release(void* loan) noexcept { static_cast<Loan*>(loan)->release_reference(); }

// Before a write. A storage that was resized or swapped meanwhile has other memory already.
void make_writable(c10::StorageImpl* storage) {
  static CopyFigures copied{"import.materialised"};
  c10::DataPtr old;  // destroyed after the lock
  std::lock_guard lock(mutex_of(*storage));
  c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &release) return;
  auto& loan = *static_cast<Loan*>(data.get_context());
  c10::DataPtr own;
  if (loan.reference_count() == 1) {
    own = std::move(loan.memory());
  } else {
    const c10::Device device = data.device();
    own = private_copy(data.get(), storage->nbytes(), device);
    if (!device.is_cpu()) {  // the copy may be on another stream than that of the memory
      const c10::impl::VirtualGuardImpl guard(device.type());
      guard.recordDataPtrOnStream(loan.memory(), guard.getStream(device));
    }
    copied.add(storage->nbytes());
  }
  old = std::exchange(data, std::move(own));
}

// Whether nobody but the storage knows the memory.
bool is_alone(const c10::StorageImpl& storage, const c10::DataPtr& data) {
  return data.get_context() == data.get() || pool_block_of(data) || has_taken_over(storage);
}

}  // namespace

LoanPtr lend(c10::StorageImpl& storage) {
  std::lock_guard lock(mutex_of(storage));
  c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  if (data.get_deleter() == &release) return LoanPtr(static_cast<Loan*>(data.get_context()));
  if (storage.has_materializer() || !is_alone(storage, data)) return {};
  LoanPtr loan(new Loan(std::move(data)));
  loan->add_reference();  // the storage's
  data = c10::DataPtr(loan->memory().get(), loan.get(), &release, loan->memory().device());
  storage.set_materializer(&make_writable);
  return loan;
}

void record_lent_memory(c10::StorageImpl& storage, const c10::Stream& stream) {
  std::lock_guard lock(mutex_of(storage));
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() != &release) return;
  c10::impl::VirtualGuardImpl(stream.device_type())
      .recordDataPtrOnStream(static_cast<Loan*>(data.get_context())->memory(), stream);
}

#else

void record_lent_memory(c10::StorageImpl&, const c10::Stream&) {}

// PyTorch's own copy-on-write: a clone that shares the memory is what the device has.
LoanPtr lend(c10::StorageImpl& storage) {
  static CopyFigures copied{"import.materialised"};
  std::lock_guard lock(mutex_of(storage));
  if (shared_buffer_of(storage)) return {};  // that memory is the device's, not ours to lend
  c10::intrusive_ptr<c10::StorageImpl> clone = c10::impl::cow::lazy_clone_storage(storage);
  if (!clone) return {};
  const c10::Device device = storage.device();
  storage.set_allocator(&counting_allocator(device, copied));
  void* const data = const_cast<void*>(clone->data());
  return LoanPtr(new Loan(c10::DataPtr(
      data, clone.release(),
      [](void* kept) {
        c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(kept));
      },
      device)));
}

#endif

}  // namespace torch_pjrt::aten
