#include "aten/import.h"

#include "aten/copy_figures.h"
#include "aten/lent_storage.h"
#include "aten/shared_storage.h"
#include "aten/zero_copy.h"
#include "transfer/strided_copy.h"
#include "transfer/transfer_figures.h"

namespace torch_pjrt::aten {
namespace {

struct Figures {
  transfer::TransferFigures all{"transfer.host_to_device"};
  transfer::TransferFigures adopted{"transfer.host_to_device.adopted"};
  CopyFigures device{"import.copied.device"};
  CopyFigures view{"import.copied.view"};
  CopyFigures misaligned{"import.copied.misaligned"};
  CopyFigures storage{"import.copied.storage"};
};

Figures& figures() {
  static Figures* const figures = new Figures;
  return *figures;
}

bool is_row_major(const transfer::HostSource& source) {
  return transfer::is_row_major(source.dimensions, source.byte_strides,
                                static_cast<size_t>(pjrt::bit_width(source.type)) / 8);
}

// The device buffer whose memory the tensor shows from its first to its last byte, if any.
graph::Value buffer_of(const at::Tensor& tensor, const transfer::HostSource& source,
                       const graph::Executor& executor) {
  const graph::SharedBufferPtr* shared = shared_buffer_of(*tensor.storage().unsafeGetStorageImpl());
  if (!shared || tensor.nbytes() != tensor.storage().nbytes() || !is_row_major(source)) return {};
  const pjrt::Buffer& buffer = (*shared)->buffer;
  if (buffer.on_device_bytes() != tensor.nbytes() || buffer.device() != executor.device() ||
      (*shared)->outside_writers.load() != 0) {
    return {};
  }
  transfer::MeasuredTransfer measured(figures().all, tensor.nbytes());
  measured.took(figures().adopted);
  graph::Type type{buffer.element_type(), graph::Dimensions(buffer.dimensions())};
  return {graph::Node::data(*shared, std::move(type)), 0};
}

}  // namespace

graph::Value import_from_cpu(const at::Tensor& tensor, const transfer::HostSource& source,
                             const graph::Executor& executor) {
  if (graph::Value value = buffer_of(tensor, source, executor)) return value;
  if (!zero_copy_wanted()) return {};
  const auto copied = [&](CopyFigures& figure) {
    figure.add(tensor.nbytes());
    return graph::Value();
  };
  const pjrt::Client& client = *executor.client();
  if (!transfer::uses_host_memory(client)) return copied(figures().device);
  if (!is_row_major(source) || 2 * tensor.nbytes() < tensor.storage().nbytes()) {
    return copied(figures().view);
  }
  if (!transfer::can_adopt(client, source)) return copied(figures().misaligned);
  LoanPtr loan = lend(*tensor.storage().unsafeGetStorageImpl());
  if (!loan) return copied(figures().storage);
  graph::SharedBufferPtr buffer(new graph::SharedBuffer(
      transfer::adopt(client, executor.device(), source, transfer::hold(std::move(loan)))));
  buffer->is_lent = true;
  graph::Type type{source.type, graph::Dimensions(source.dimensions)};
  return {graph::Node::data(std::move(buffer), std::move(type)), 0};
}

}  // namespace torch_pjrt::aten
