#include "aten/import.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>

#include "aten/accelerator_order.h"
#include "aten/accelerators.h"
#include "aten/copy_figures.h"
#include "aten/dtype_policy.h"
#include "aten/lent_storage.h"
#include "aten/shared_storage.h"
#include "aten/upload.h"
#include "aten/zero_copy.h"
#include "transfer/device_view.h"
#include "transfer/strided_copy.h"
#include "transfer/transfer_figures.h"

namespace torch_pjrt::aten {
namespace {

struct ImportFigures {
  transfer::TransferFigures all{"transfer.host_to_device"};
  transfer::TransferFigures adopted{"transfer.host_to_device.adopted"};
  transfer::TransferFigures from_accelerator{"transfer.from_accelerator"};
  transfer::TransferFigures from_accelerator_adopted{"transfer.from_accelerator.adopted"};
  CopyFigures device{"import.copied.device"};
  CopyFigures view{"import.copied.view"};
  CopyFigures misaligned{"import.copied.misaligned"};
  CopyFigures storage{"import.copied.storage"};
};

ImportFigures& import_figures() {
  static ImportFigures* const figures = new ImportFigures;
  return *figures;
}

bool is_row_major(const transfer::HostSource& source) {
  return transfer::is_row_major(source.dimensions, source.byte_strides,
                                static_cast<size_t>(pjrt::bit_width(source.type)) / 8);
}

// The device buffer whose memory the tensor shows from its first to its last byte, if any.
graph::Value buffer_of(const at::Tensor& tensor, const transfer::HostSource& source,
                       const graph::Executor& executor, transfer::TransferFigures& all,
                       transfer::TransferFigures& adopted) {
  const graph::SharedBufferPtr* shared = shared_buffer_of(*tensor.storage().unsafeGetStorageImpl());
  if (!shared || tensor.nbytes() != tensor.storage().nbytes() || !is_row_major(source)) return {};
  const pjrt::Buffer& buffer = (*shared)->buffer;
  if (buffer.on_device_bytes() != tensor.nbytes() || buffer.device() != executor.device() ||
      (*shared)->has_outside_writers()) {
    return {};
  }
  transfer::MeasuredTransfer measured(all, tensor.nbytes());
  measured.took(adopted);
  graph::Type type{buffer.element_type(), graph::Dimensions(buffer.dimensions())};
  return {graph::Node::data(*shared, std::move(type)), 0};
}

constexpr uintptr_t kAlignment = 64;

graph::Value lent_value(pjrt::Buffer memory, graph::Type type) {
  graph::SharedBufferPtr buffer(new graph::SharedBuffer(std::move(memory)));
  buffer->is_lent = true;
  if (border() == Border::kBorrowed) buffer->outside_writers = 1;
  return {graph::Node::data(std::move(buffer), std::move(type)), 0};
}

// The accelerator's memory as a buffer, which `holder` keeps and nobody writes.
graph::Value view_of(const transfer::HostSource& source, std::unique_ptr<transfer::Holder> holder,
                     const graph::Executor& executor, c10::Device device) {
  const intptr_t stream = order_device_after(executor, device);
  return lent_value(
      transfer::view_device_memory(*executor.client(), executor.device(), source.data,
                                   {source.type, source.dimensions}, std::move(holder), stream),
      {source.type, graph::Dimensions(source.dimensions)});
}

// What keeps the tensor's memory as it is; null where that cannot be had.
std::unique_ptr<transfer::Holder> borrow(const at::Tensor& tensor) {
  // Not the tensor, whose Python object would live as long.
  if (border() >= Border::kUnprotected) return transfer::hold(c10::Storage(tensor.storage()));
  LoanPtr loan = lend(*tensor.storage().unsafeGetStorageImpl());
  return loan ? transfer::hold(std::move(loan)) : nullptr;
}

// Why the tensor's own memory cannot be shared; null, with what holds it, if it can.
CopyFigures* objection(const at::Tensor& tensor, const transfer::HostSource& source,
                       std::unique_ptr<transfer::Holder>& holder) {
  if (!is_row_major(source) || 2 * tensor.nbytes() < tensor.storage().nbytes()) {
    return &import_figures().view;
  }
  if (reinterpret_cast<uintptr_t>(source.data) % kAlignment != 0)
    return &import_figures().misaligned;
  holder = borrow(tensor);
  return holder ? nullptr : &import_figures().storage;
}

}  // namespace

graph::Value import_from_cpu(const at::Tensor& tensor, const transfer::HostSource& source,
                             const graph::Executor& executor) {
  if (graph::Value value =
          buffer_of(tensor, source, executor, import_figures().all, import_figures().adopted)) {
    return value;
  }
  if (!zero_copy_wanted()) return {};
  const auto copied = [&](CopyFigures& figure) {
    figure.add(tensor.nbytes());
    return graph::Value();
  };
  const pjrt::Client& client = *executor.client();
  if (!transfer::uses_host_memory(client)) return copied(import_figures().device);
  if (!is_row_major(source) || 2 * tensor.nbytes() < tensor.storage().nbytes()) {
    return copied(import_figures().view);
  }
  if (!transfer::can_adopt(client, source)) return copied(import_figures().misaligned);
  std::unique_ptr<transfer::Holder> holder = borrow(tensor);
  if (!holder) return copied(import_figures().storage);
  return lent_value(transfer::adopt(client, executor.device(), source, std::move(holder)),
                    {source.type, graph::Dimensions(source.dimensions)});
}

graph::Value import_from_accelerator(const at::Tensor& tensor, c10::ScalarType dtype,
                                     at::IntArrayRef target_strides,
                                     const graph::Executor& executor) {
  if (tensor.numel() == 0) return {};
  if (companion_of(executor) != tensor.device()) {
    import_figures().device.add(tensor.nbytes());
    return {};
  }
  transfer::TransferFigures& all = import_figures().from_accelerator;
  transfer::TransferFigures& adopted = import_figures().from_accelerator_adopted;
  if (goes_as_it_is(tensor, dtype)) {
    const HostArray array(tensor, target_strides);
    const transfer::HostSource source = array.source();
    if (graph::Value value = buffer_of(tensor, source, executor, all, adopted)) return value;
    if (zero_copy_wanted()) {
      std::unique_ptr<transfer::Holder> holder;
      CopyFigures* const reason = objection(tensor, source, holder);
      if (!reason) {
        transfer::MeasuredTransfer measured(all, tensor.nbytes());
        measured.took(adopted);
        return view_of(source, std::move(holder), executor, tensor.device());
      }
      reason->add(tensor.nbytes());
    }
  }
  transfer::MeasuredTransfer measured(all, tensor.nbytes());
  const at::AutoDispatchBelowADInplaceOrView no_gradient;
  const auto strides = target_strides.empty() ? c10::contiguous_strides(tensor.sizes())
                                              : c10::DimVector(target_strides);
  at::Tensor copy = at::empty_strided(
      tensor.sizes(), strides, tensor.options().dtype(held_dtype(dtype)).requires_grad(false));
  copy.copy_(tensor);
  const HostArray array(copy, target_strides);
  return view_of(array.source(), transfer::hold(at::Tensor(copy)), executor, tensor.device());
}

}  // namespace torch_pjrt::aten
