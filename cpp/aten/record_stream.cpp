// Tensor.record_stream() for memory that an accelerator and PJRT share.
#include <ATen/core/Tensor.h>
#include <ATen/ops/record_stream_ops.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "aten/accelerators.h"
#include "aten/lent_storage.h"
#include "aten/stream_uses.h"

namespace torch_pjrt::aten {
namespace {

void record_stream(c10::DispatchKeySet keys, at::Tensor& self, c10::Stream stream) {
  if (is_accelerator(self.device().type()) && self.has_storage()) {
    c10::StorageImpl& storage = *self.storage().unsafeGetStorageImpl();
    StreamUses::record(storage.data(), stream);
    record_lent_memory(storage, stream);
  }
  constexpr c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER,
                                      c10::DispatchKey::BackendSelect);
  at::_ops::record_stream::redispatch(keys & below, self, stream);
}

// The one key that tensors of all devices have, also in inference mode.
TORCH_LIBRARY_IMPL(aten, BackendSelect, m) { m.impl("record_stream", TORCH_FN(record_stream)); }

}  // namespace
}  // namespace torch_pjrt::aten
