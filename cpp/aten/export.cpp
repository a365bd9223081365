#include "aten/export.h"

#include "aten/accelerator_order.h"
#include "aten/accelerators.h"
#include "aten/copy.h"
#include "aten/copy_figures.h"
#include "aten/dtype_policy.h"
#include "aten/shared_storage.h"
#include "aten/storage.h"
#include "aten/tensor.h"
#include "aten/zero_copy.h"
#include "base/metrics.h"
#include "graph/emission.h"
#include "graph/executor.h"
#include "transfer/host_addressing.h"
#include "transfer/transfer_figures.h"

namespace torch_pjrt::aten {
namespace {

struct ExportFigures {
  transfer::TransferFigures all{"transfer.device_to_host"};
  transfer::TransferFigures adopted{"transfer.device_to_host.adopted"};
  transfer::TransferFigures to_accelerator{"transfer.to_accelerator"};
  transfer::TransferFigures to_accelerator_adopted{"transfer.to_accelerator.adopted"};
  CopyFigures device{"export.copied.device"};
  CopyFigures dtype{"export.copied.dtype"};
  CopyFigures pending{"export.copied.pending"};
  CopyFigures view{"export.copied.view"};
  CopyFigures layout{"export.copied.layout"};
  CopyFigures alias{"export.copied.alias"};
};

ExportFigures& export_figures() {
  static ExportFigures* const figures = new ExportFigures;
  return *figures;
}

// Why the tensor's shape asks for a copy; null if it does not.
CopyFigures* objection(const at::Tensor& tensor, at::MemoryFormat format) {
  if (is_narrowed(tensor.scalar_type())) return &export_figures().dtype;
  if (tensor.is_conj() || tensor.is_neg()) return &export_figures().layout;
  if (!tensor.is_non_overlapping_and_dense()) return &export_figures().view;
  if (format != at::MemoryFormat::Preserve && !tensor.is_contiguous(format)) {
    return &export_figures().layout;
  }
  return nullptr;
}

// Others may write the memory: a promise of a copy cannot be kept with it.
bool is_aliased(const graph::SharedBuffer& buffer) { return buffer.has_outside_writers(); }

// A tensor on `device` over the memory that `tensor` shows in the buffer.
at::Tensor share(const at::Tensor& tensor, graph::SharedBufferPtr buffer, graph::Executor& executor,
                 c10::Device device, at::MemoryFormat format) {
  auto* data = static_cast<char*>(buffer->buffer.device_pointer()) +
               tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      share_buffer(std::move(buffer), executor, data, tensor.nbytes(), device,
                   border() != Border::kUnprotected),
      c10::DispatchKeySet(tensor.options().device(device).computeDispatchKey()), tensor.dtype());
  c10::TensorImpl& view = *result.unsafeGetTensorImpl();
  if (format == at::MemoryFormat::Preserve) {
    view.set_sizes_and_strides(tensor.sizes(), tensor.strides());
  } else {
    view.set_sizes_contiguous(tensor.sizes());
    view.empty_tensor_restride(format);
  }
  return result;
}

}  // namespace

graph::Value storage_value(const at::Tensor& tensor) {
  graph::Value contents = cell_of(*tensor.storage().unsafeGetStorageImpl()).get();
  const auto needed = static_cast<int64_t>(tensor.storage().nbytes());
  return contents && contents.type().byte_count() >= needed ? contents : contents_of(tensor);
}

at::Tensor export_to_cpu(const at::Tensor& tensor, at::MemoryFormat format, bool non_blocking) {
  const size_t bytes = tensor.nbytes();
  if (bytes == 0) return {};
  const auto copied = [bytes](CopyFigures& figure) {
    figure.add(bytes);
    return at::Tensor();
  };
  if (CopyFigures* figure = objection(tensor, format)) return copied(*figure);
  graph::Executor& executor = executor_of(tensor);
  if (!transfer::uses_host_memory(*executor.client())) return copied(export_figures().device);
  graph::Value contents = storage_value(tensor);
  if (2 * bytes < static_cast<size_t>(contents.type().byte_count()))
    return copied(export_figures().view);

  graph::SharedBufferPtr buffer = executor.buffer(std::move(contents));
  const pjrt::Event ready = buffer->buffer.ready_event();
  if (non_blocking && !ready.is_ready()) return copied(export_figures().pending);
  if (is_aliased(*buffer)) return copied(export_figures().alias);
  transfer::MeasuredTransfer measured(export_figures().all, bytes);
  measured.took(export_figures().adopted);
  ready.await("read a tensor");
  executor.raise_failed_checks();
  return share(tensor, std::move(buffer), executor, c10::Device(c10::kCPU), format);
}

graph::Value unshared(const graph::Value& value) {
  static constexpr graph::Operator kUnshare{"torch_pjrt::unshare",
                                            [](graph::Emission& e) { e.result(e.operand(0)); }};
  return {graph::Node::operation(kUnshare, {&value, 1}, {}, value.type()), 0};
}

at::Tensor export_to_accelerator(const at::Tensor& tensor, c10::Device device,
                                 at::MemoryFormat format) {
  const size_t bytes = tensor.nbytes();
  if (bytes == 0) return {};
  graph::Executor& executor = executor_of(tensor);
  if (companion_of(executor) != device) {
    export_figures().device.add(bytes);
    return {};
  }
  CopyFigures* reason = objection(tensor, format);
  if (reason == &export_figures().dtype) {
    reason->add(bytes);
    return {};
  }
  transfer::MeasuredTransfer measured(export_figures().to_accelerator, bytes);
  graph::SharedBufferPtr buffer;
  if (!reason) {
    graph::Value contents = storage_value(tensor);
    if (2 * bytes < static_cast<size_t>(contents.type().byte_count())) {
      reason = &export_figures().view;
    } else {
      buffer = executor.buffer(std::move(contents));
      if (is_aliased(*buffer)) reason = &export_figures().alias;
    }
  }
  at::Tensor source = tensor;
  if (reason) {
    reason->add(bytes);
    source = cast(tensor, tensor.scalar_type(), format);
    buffer = executor.buffer(unshared(storage_value(source)));
  } else {
    measured.took(export_figures().to_accelerator_adopted);
  }
  order_stream_after(executor, buffer->buffer, current_stream(device));
  return share(source, std::move(buffer), executor, device, format);
}

}  // namespace torch_pjrt::aten
