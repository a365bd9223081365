#include "aten/dlpack.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <utility>

#include "aten/accelerator_order.h"
#include "aten/accelerators.h"
#include "aten/copy.h"
#include "aten/copy_figures.h"
#include "aten/dlpack_order.h"
#include "aten/dtype_policy.h"
#include "aten/errors.h"
#include "aten/export.h"
#include "aten/layout.h"
#include "aten/storage.h"
#include "aten/tensor.h"
#include "aten/types.h"
#include "base/blocking_region.h"
#include "pjrt/stream_extension.h"
#include "transfer/device_view.h"
#include "transfer/host_addressing.h"
#include "transfer/host_memory_pool.h"
#include "transfer/host_to_device.h"
#include "transfer/strided_copy.h"

namespace torch_pjrt::aten {
namespace {

struct DlpackFigures {
  CopyFigures exported{"dlpack.exported"};
  CopyFigures imported{"dlpack.imported"};
  CopyFigures unshared{"dlpack.unshared"};
  CopyFigures asked{"dlpack.copied.asked"};
  CopyFigures misaligned{"dlpack.copied.misaligned"};
  CopyFigures view{"dlpack.copied.view"};
  CopyFigures device{"dlpack.copied.device"};
};

DlpackFigures& dlpack_figures() {
  static DlpackFigures* const figures = new DlpackFigures;
  return *figures;
}

void check_exportable(const at::Tensor& tensor) {
  TORCH_CHECK_BUFFER(!tensor.requires_grad(),
                     "Can't export tensors that require gradient, use tensor.detach()");
  TORCH_CHECK_BUFFER(!tensor.is_conj(), "Can't export tensors with the conjugate bit set");
  TORCH_CHECK_BUFFER(!tensor.is_neg(), "export a tensor by DLPack: its memory holds the negative ",
                     "of what it shows; use tensor.resolve_neg()");
}

// The storage's value as device data that its cell holds.
graph::Value data_of(const at::Tensor& tensor, graph::Executor& executor) {
  graph::Cell& cell = cell_of(*tensor.storage().unsafeGetStorageImpl());
  const size_t item = tensor.itemsize();
  const auto needed = static_cast<int64_t>(tensor.storage().nbytes() / item * item);
  for (;;) {
    graph::Value stored = cell.get();
    if (!stored || stored.type().byte_count() < needed) {
      cell.set_if(stored, contents_of(tensor));
      continue;
    }
    if (stored.node->is_data()) return stored;
    executor.buffer(stored);
  }
}

// Keeps a buffer for others, who may write its memory.
class OutsideAlias {
 public:
  explicit OutsideAlias(graph::SharedBufferPtr shared) : buffer_(std::move(shared)) {
    buffer_->buffer.add_external_reference();
    ++buffer_->outside_writers;
  }
  OutsideAlias(OutsideAlias&& other) noexcept = default;
  OutsideAlias& operator=(OutsideAlias&&) = delete;
  ~OutsideAlias() {
    if (!buffer_) return;
    --buffer_->outside_writers;
    if (!graph::SharedBuffer::leaks()) buffer_->buffer.drop_external_reference();
  }

  graph::SharedBuffer& buffer() const noexcept { return *buffer_; }

 private:
  graph::SharedBufferPtr buffer_;
};

// Whether only this tensor's storage, and earlier exports of it, see the memory.
bool is_its_own(const graph::Value& value, const graph::SharedBuffer& buffer) {
  const int outside = buffer.outside_writers.load();
  // Lent copy-on-write: the lender's tensor shows the same memory.
  const bool came_by_dlpack = buffer.is_lent && outside > 1;
  if (buffer.is_lent && !came_by_dlpack) return false;
  // The node's reference and one of each export; the cell's and `value`'s.
  const int exports = outside - (came_by_dlpack ? 1 : 0);
  return static_cast<int>(buffer.reference_count()) <= 1 + exports &&
         value.node->reference_count() <= 2;
}

// Whether others outside see the memory, so that the tensor has to keep it.
bool is_seen_outside(const graph::SharedBuffer& buffer) {
  return buffer.is_lent || buffer.outside_writers.load() > 1;
}

// The tensor's buffer, which nothing else has. `orders_readers`: whoever waits for the contents
// also waits for the programs that read them now.
OutsideAlias alias_of(const at::Tensor& tensor, graph::Executor& executor, bool orders_readers) {
  const void* before = nullptr;
  for (;;) {
    executor.execute();  // what is recorded refers to what it reads
    const graph::Value value = data_of(tensor, executor);
    OutsideAlias alias(executor.buffer(value));
    const auto bytes = static_cast<size_t>(value.type().byte_count());
    const bool is_own = is_its_own(value, alias.buffer());
    if (is_own && orders_readers && executor.may_be_read(alias.buffer())) {
      if (is_seen_outside(alias.buffer())) {
        order_host_after(executor);
        return alias;
      }
      before = alias.buffer().buffer.device_pointer();
    } else if (is_own) {
      if (before && before != alias.buffer().buffer.device_pointer()) {
        dlpack_figures().unshared.add(bytes);
      }
      return alias;
    } else {
      before = nullptr;
    }
    // The program that copies takes the memory over where nobody else has it, and waits, on the
    // device, for those that read it.
    const graph::Value own = unshared(value);
    const bool is_set = cell_of(*tensor.storage().unsafeGetStorageImpl()).set_if(value, own);
    if (is_set && !before) dlpack_figures().unshared.add(bytes);
  }
}

DlpackExport copied(const at::Tensor& tensor, const void* data) {
  DlpackExport result;
  transfer::HostBlock block = transfer::HostMemoryPool::shared().allocate(tensor.nbytes());
  c10::DimVector strides(tensor.strides());
  for (int64_t& stride : strides) stride *= static_cast<int64_t>(tensor.itemsize());
  transfer::pack(block.data(), data, span_of(tensor.sizes()), span_of(strides), tensor.itemsize());
  dlpack_figures().asked.add(tensor.nbytes());
  result.data = block.data();
  result.is_copied = true;
  result.strides = c10::contiguous_strides(tensor.sizes());
  result.holder = transfer::hold(std::move(block));
  return result;
}

// On the device, row-major.
at::Tensor own_copy(const at::Tensor& tensor) {
  dlpack_figures().asked.add(tensor.nbytes());
  return make_tensor(executor_of(tensor), unshared(value_of(tensor)), tensor.scalar_type());
}

// Elements from the first to the last one in memory; 0 when strides are negative.
int64_t span_of_elements(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] < 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}

bool same_device(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

// Whether the array lies on the accelerator in whose memory the device computes.
bool is_on_accelerator(const graph::Executor& executor, const dlpack::ImportedTensor& source) {
  if (source.device().device_type == kDLCPU) return false;
  const auto own = dlpack_accelerator(executor);
  return own && same_device(*own, source.device());
}

// Why the array's memory cannot be a storage of the device; null if it can.
CopyFigures* objection(const graph::Executor& executor, const dlpack::ImportedTensor& source,
                       const transfer::HostSource& flat, int64_t count) {
  const bool in_host_memory =
      source.device().device_type == kDLCPU && transfer::uses_host_memory(*executor.client());
  if (!in_host_memory && !is_on_accelerator(executor, source)) return &dlpack_figures().device;
  if (flat.dimensions[0] == 0 || flat.dimensions[0] > 2 * count) return &dlpack_figures().view;
  const bool aligned = reinterpret_cast<uintptr_t>(flat.data) % 64 == 0;
  return aligned ? nullptr : &dlpack_figures().misaligned;
}

pjrt::Buffer adopt(const graph::Executor& executor, dlpack::ImportedTensor source,
                   const transfer::HostSource& array) {
  const pjrt::Client& client = *executor.client();
  if (!is_on_accelerator(executor, source)) {
    return transfer::adopt(client, executor.device(), array, transfer::hold(std::move(source)));
  }
  const auto companion = companion_of(executor);
  const intptr_t stream =
      companion ? order_device_after(executor, *companion)
                : pjrt::stream_for_ready_events(client, executor.device()).value_or(0);
  return transfer::view_device_memory(client, executor.device(), array.data,
                                      {array.type, array.dimensions},
                                      transfer::hold(std::move(source)), stream);
}

// The array as PyTorch's, which copies it on the accelerator.
at::Tensor copy_on_accelerator(dlpack::ImportedTensor source, graph::Executor& executor,
                               c10::ScalarType dtype, at::IntArrayRef sizes,
                               at::IntArrayRef strides) {
  const c10::Device device = companion_of(executor).value();
  order_stream_after_producers(executor, device);
  const at::Tensor array = at::for_blob(source.data(), sizes)
                               .strides(strides)
                               .options(at::TensorOptions().dtype(dtype).device(device))
                               .target_device(device)
                               .make_tensor();
  at::Tensor copy = copy_to_new(array, dtype, executor, at::MemoryFormat::Contiguous);
  const c10::Stream stream = current_stream(device);
  release_after_streams(transfer::hold(std::move(source)), {&stream, 1});
  return copy;
}

at::Tensor tensor_of(graph::Executor& executor, graph::SharedBufferPtr buffer, graph::Type type,
                     c10::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::Storage storage = make_storage(executor, static_cast<size_t>(type.byte_count()));
  cell_of(*storage.unsafeGetStorageImpl())
      .set({graph::Node::data(std::move(buffer), std::move(type)), 0});
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::XLA),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor copy_of(const transfer::HostSource& source, graph::Executor& executor,
                   c10::ScalarType dtype) {
  const graph::Type type{source.type, graph::Dimensions(source.dimensions)};
  graph::SharedBufferPtr buffer(new graph::SharedBuffer(
      transfer::host_to_device(*executor.client(), executor.device(), source)));
  return make_tensor(executor, {graph::Node::data(std::move(buffer), type), 0}, dtype);
}

}  // namespace

DLDevice dlpack_device(const at::Tensor& tensor) {
  const graph::Executor& executor = executor_of(tensor);
  if (transfer::uses_host_memory(*executor.client())) return {kDLCPU, 0};
  const auto accelerator = dlpack_accelerator(executor);
  TORCH_CHECK_BUFFER(accelerator, "find the DLPack device of ", tensor.device(),
                     ": DLPack has none for the "
                     "memory of PJRT platform ",
                     executor.client()->platform_name(), "; copy the tensor to cpu first");
  return *accelerator;
}

dlpack::ExportedArray DlpackExport::array() const noexcept {
  return {data, device, type, span_of(dimensions), span_of(strides), is_read_only, is_copied};
}

DlpackExport export_by_dlpack(const at::Tensor& tensor, std::optional<DLDevice> device,
                              std::optional<bool> copy, std::optional<int64_t> stream) {
  check_exportable(tensor);
  const DLDevice own = dlpack_device(tensor);
  TORCH_CHECK_BUFFER(!is_narrowed(tensor.scalar_type()), "export a ", tensor.scalar_type(),
                     " tensor by DLPack: the device holds it in fewer bits, so its memory is not "
                     "what the dtype says; move it to the cpu first");
  TORCH_CHECK_BUFFER(tensor.scalar_type() != at::kComplexHalf,
                     "export a tensor by DLPack: the device has no such elements; got dtype "
                     "complex32, expected another; convert the tensor first");
  TORCH_CHECK_BUFFER(
      !device || same_device(*device, own),
      "export a tensor by DLPack: it is not on the device that is asked for; got DLPack device (",
      device ? static_cast<int>(device->device_type) : 0, ", ", device ? device->device_id : 0,
      "), expected (", static_cast<int>(own.device_type), ", ", own.device_id,
      "); move the tensor first");
  const bool on_host = own.device_type == kDLCPU;
  const Consumer consumer{own, stream};
  TORCH_CHECK_BUFFER(consumer.requested().kind != dlpack::RequestedStream::Kind::kInvalid,
                     "export a tensor by DLPack: its device has no such stream; got ",
                     "stream=", stream.value_or(0), ", expected None",
                     on_host ? " or -1, as host memory has no streams"
                     : own.device_type == kDLCUDA
                         ? ", -1, 1 for the legacy default stream or a stream's handle"
                         : ", -1 or a stream's handle");
  if (copy.value_or(false) && !on_host) {
    DlpackExport result = export_by_dlpack(own_copy(tensor), device, false, stream);
    result.is_read_only = false;
    result.is_copied = true;
    return result;
  }
  DlpackExport result;
  result.strides = c10::DimVector(tensor.strides());
  if (tensor.numel() != 0) {
    graph::Executor& executor = executor_of(tensor);
    OutsideAlias alias = alias_of(tensor, executor, !on_host && stream != -1);
    const pjrt::Buffer& buffer = alias.buffer().buffer;
    if (on_host) {
      executor.synchronize();
      buffer.ready_event().await("export a tensor by DLPack");
    } else {
      order_consumer_after(executor, buffer, consumer);
    }
    auto* const data = static_cast<char*>(buffer.device_pointer()) +
                       tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
    if (copy.value_or(false)) {
      result = copied(tensor, data);
    } else {
      dlpack_figures().exported.add(tensor.nbytes());
      result.data = data;
      result.is_read_only = true;
      result.holder = transfer::hold(std::move(alias));
      if (!on_host) {
        result.holder = released_after_streams(std::move(result.holder), executor, consumer, data);
      }
    }
  }
  result.device = own;
  result.type = element_type(tensor.scalar_type());
  result.dimensions = c10::DimVector(tensor.sizes());
  return result;
}

at::Tensor import_by_dlpack(dlpack::ImportedTensor source, graph::Executor& executor,
                            std::optional<bool> copy) {
  const pjrt::ElementType type = source.type();
  const c10::ScalarType dtype = scalar_type(type);
  const std::vector<int64_t> sizes(source.dimensions().begin(), source.dimensions().end());
  const std::vector<int64_t> strides(source.strides().begin(), source.strides().end());
  const int64_t count = transfer::element_count(sizes);
  if (count == 0) {
    const c10::Device device(c10::kXLA, static_cast<c10::DeviceIndex>(executor.index()));
    return at::empty(sizes, at::TensorOptions().dtype(dtype).device(device));
  }
  const int64_t extent = span_of_elements(sizes, strides);
  const size_t item = static_cast<size_t>(pjrt::bit_width(type)) / 8;
  const size_t bytes = static_cast<size_t>(count) * item;
  const transfer::HostSource flat{source.data(), type, {&extent, 1}, {}};

  CopyFigures* reason =
      copy.value_or(false) ? &dlpack_figures().asked : objection(executor, source, flat, count);
  if (!reason) {
    std::vector<int64_t> byte_strides(strides);
    for (int64_t& stride : byte_strides) stride *= static_cast<int64_t>(item);
    const bool is_plain = transfer::is_row_major(sizes, byte_strides, item);
    dlpack_figures().imported.add(bytes);
    graph::SharedBufferPtr buffer(new graph::SharedBuffer(
        adopt(executor, std::move(source),
              is_plain ? transfer::HostSource{flat.data, type, sizes, {}} : flat)));
    buffer->is_lent = true;
    buffer->outside_writers = 1;
    graph::Type stored{type, is_plain ? graph::Dimensions(std::span<const int64_t>(sizes))
                                      : graph::Dimensions{extent}};
    return tensor_of(executor, std::move(buffer), std::move(stored), dtype, sizes, strides);
  }
  TORCH_CHECK_BUFFER(copy.value_or(true),
                     "import an array by DLPack: its memory cannot be shared "
                     "and copy=False forbids a copy; expected memory of the host or of the device "
                     "that is aligned to 64 bytes, without large gaps and negative strides; leave "
                     "copy out");
  if (is_on_accelerator(executor, source) && companion_of(executor)) {
    reason->add(bytes);
    return copy_on_accelerator(std::move(source), executor, dtype, sizes, strides);
  }
  TORCH_CHECK_BUFFER(source.device().device_type == kDLCPU,
                     "import an array by DLPack: it is not in host memory; got DLPack device type ",
                     static_cast<int>(source.device().device_type),
                     ", expected 1 (CPU); copy it to the host first");
  reason->add(bytes);
  std::vector<int64_t> byte_strides(strides);
  for (int64_t& stride : byte_strides) stride *= static_cast<int64_t>(item);
  return copy_of({source.data(), type, sizes, byte_strides}, executor, dtype);
}

}  // namespace torch_pjrt::aten
