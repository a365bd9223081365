#include "aten/lent_storage.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <mutex>
#include <utility>

#include "aten/accelerator_memory.h"
#include "aten/copy_figures.h"
#include "aten/pool_allocator.h"
#include "aten/shared_storage.h"

namespace torch_pjrt::aten {

#if TORCH_PJRT_CAN_SHARE_STORAGE
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

#else

LoanPtr lend(c10::StorageImpl&) { return {}; }

#endif

}  // namespace torch_pjrt::aten
