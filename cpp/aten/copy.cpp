#include "aten/copy.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "aten/accelerators.h"
#include "aten/copy_figures.h"
#include "aten/device.h"
#include "aten/dtype_policy.h"
#include "aten/errors.h"
#include "aten/export.h"
#include "aten/import.h"
#include "aten/layout.h"
#include "aten/record.h"
#include "aten/storage.h"
#include "aten/types.h"
#include "aten/upload.h"
#include "base/metrics.h"
#include "graph/strided_view.h"
#include "transfer/deferred_copies.h"
#include "transfer/device_to_device.h"
#include "transfer/device_to_host.h"
#include "transfer/host_addressing.h"

namespace torch_pjrt::aten {
namespace {

constexpr Operator kCast{
    "aten::_to_copy", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      e.result(b.broadcast_to(b.convert(e.operand(0), type.element), type.dimensions));
    }};

// The value of `tensor` with another dtype, broadcast to `sizes`.
graph::Value cast_value(const at::Tensor& tensor, c10::ScalarType dtype, at::IntArrayRef sizes) {
  graph::Value value = value_of(tensor);
  if (tensor.scalar_type() == dtype && tensor.sizes() == sizes) return value;
  return {graph::Node::operation(kCast, {&value, 1}, {}, type_of(dtype, sizes)), 0};
}

c10::SmallVector<int64_t, 8> byte_strides(const at::Tensor& tensor) {
  c10::SmallVector<int64_t, 8> strides(tensor.strides().begin(), tensor.strides().end());
  for (int64_t& stride : strides) stride *= static_cast<int64_t>(tensor.itemsize());
  return strides;
}

// The strides of a copy; empty when they are row-major.
std::optional<c10::DimVector> strides_for(const at::Tensor& tensor, at::MemoryFormat format) {
  if (format == at::MemoryFormat::Preserve) return preserved_strides(tensor);
  if (format == at::MemoryFormat::Contiguous) return std::nullopt;
  return c10::DimVector(
      at::empty({0}, tensor.options().device(at::kMeta)).resize_(tensor.sizes(), format).strides());
}

// Whether the memory holds the conjugate or the negative of what the tensor shows.
bool has_bits(const at::Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }

// `upload` of a tensor on any device.
graph::Value bring(const at::Tensor& src, c10::ScalarType dtype, at::IntArrayRef target_strides,
                   const graph::Executor& executor, bool may_hold) {
  if (src.is_cpu()) return upload(src, dtype, target_strides, executor, may_hold);
  if (is_accelerator(src.device().type())) {
    graph::Value value = import_from_accelerator(src, dtype, target_strides, executor);
    if (value) return value;
  }
  return upload(src.cpu(), dtype, target_strides, executor);
}

// Outside memory to device. A dense tensor in any order of dimensions goes as it lies in memory.
void copy_to_device(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  graph::Executor& executor = executor_of(dst);
  if (src.numel() == 0) return;
  const bool covers = dst.storage_offset() == 0 && dst.is_non_overlapping_and_dense() &&
                      dst.nbytes() == dst.storage().nbytes() && !has_bits(dst);
  if (!covers) {
    graph::Value value = bring(src, dst.scalar_type(), {}, executor, non_blocking);
    if (src.sizes() != dst.sizes()) {
      value = cast_value(make_tensor(executor, std::move(value), dst.scalar_type()),
                         dst.scalar_type(), dst.sizes());
    }
    return write(dst, std::move(value));
  }
  const at::IntArrayRef strides = dst.is_contiguous() ? at::IntArrayRef() : dst.strides();
  cell_of(*dst.storage().unsafeGetStorageImpl())
      .set(bring(src.expand(dst.sizes()), dst.scalar_type(), strides, executor, non_blocking));
}

// Leaves the copy to a thread that waits for the device; false where it is ready.
bool copy_to_host_later(const graph::Executor& executor, const graph::SharedBufferPtr& buffer,
                        const at::Tensor& dst) {
  if (buffer->buffer.ready_event().is_ready()) return false;
  transfer::DeferredCopy copy;
  copy.client = executor.client().get();
  copy.buffer = &buffer->buffer;
  copy.data = dst.mutable_data_ptr();
  copy.dimensions = transfer::DeferredCopy::Numbers(span_of(dst.sizes()));
  const auto strides = byte_strides(dst);
  if (!dst.is_contiguous()) copy.byte_strides.append(strides.data(), strides.size());
  copy.keep = transfer::hold(std::pair(buffer, dst));
  transfer::DeferredCopies::add(std::move(copy));
  return true;
}

// Device to host, where the target has the source's sizes.
void copy_to_host(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  if (src.numel() == 0) return;
  const bool plain = is_whole_storage(src) && src.scalar_type() == dst.scalar_type() &&
                     !has_bits(src) && !has_bits(dst) && !is_narrowed(src.scalar_type());
  if (!plain) {
    with_host_view(src, [&](const at::Tensor& view) { dst.copy_(view); });
    if (transfer::uses_host_memory(*executor_of(src).client())) {  // else counted already
      static CopyFigures figures{"transfer.device_to_host"};
      figures.add(src.nbytes());
    }
    return;
  }
  graph::Executor& executor = executor_of(src);
  const graph::SharedBufferPtr buffer = executor.buffer(contents_of(src));
  if (non_blocking && copy_to_host_later(executor, buffer, dst)) return;
  const auto strides = byte_strides(dst);
  transfer::HostTarget target;
  target.data = dst.mutable_data_ptr();
  target.dimensions = span_of(dst.sizes());
  if (!dst.is_contiguous()) target.byte_strides = span_of(strides);
  transfer::device_to_host(*executor.client(), buffer->buffer, target);
  executor.raise_failed_checks();
}

void copy_between_devices(const at::Tensor& src, const at::Tensor& dst) {
  graph::Executor& from = executor_of(src);
  graph::Executor& to = executor_of(dst);
  const graph::Value value = cast_value(src, dst.scalar_type(), dst.sizes());
  const graph::Type type = value.type();
  const graph::SharedBufferPtr buffer = from.buffer(value);
  buffer->is_read_elsewhere = true;
  graph::SharedBufferPtr copy(new graph::SharedBuffer(
      transfer::device_to_device(*from.client(), buffer->buffer, *to.client(), to.device())));
  write(dst, {graph::Node::data(std::move(copy), type), 0});
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  translate_errors([&] { copy_tensor(self, dst, non_blocking); });
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  translate_errors([&] { copy_tensor(self, dst, false); });
  return dst;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (!self.is_same(src)) translate_errors([&] { copy_tensor(src, self, non_blocking); });
  return self;
}

at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> format) {
  return cast(self, self.scalar_type(), format.value_or(at::MemoryFormat::Preserve));
}

at::Tensor copy_to_cpu(const at::Tensor& self, c10::ScalarType dtype, at::MemoryFormat format,
                       bool non_blocking) {
  if (dtype == self.scalar_type()) {
    at::Tensor shared = export_to_cpu(self, format, non_blocking);
    if (shared.defined()) return shared;
  }
  const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(at::kCPU);
  const auto strides = strides_for(self, format);
  at::Tensor copy = strides ? at::empty_strided(self.sizes(), *strides, options)
                            : at::empty(self.sizes(), options);
  copy_tensor(self, copy, non_blocking);
  return copy;
}

// To the accelerator in whose memory the device computes, or any other by way of the host.
at::Tensor copy_to_accelerator(const at::Tensor& self, c10::ScalarType dtype, c10::Device device,
                               at::MemoryFormat format) {
  const at::Tensor source = dtype == self.scalar_type() ? self : cast(self, dtype, format);
  at::Tensor shared = export_to_accelerator(source, device, format);
  if (shared.defined()) return shared;
  return copy_to_cpu(self, dtype, format, false).to(device);
}

// The current one if it has no number.
c10::Device with_index(c10::Device device) {
  if (device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype,
                   std::optional<at::Layout> layout, std::optional<at::Device> device,
                   std::optional<bool> pin_memory, bool non_blocking,
                   std::optional<at::MemoryFormat> format) {
  const bool same_device =
      self.device().is_xla() &&
      (!device || (device->is_xla() && (!device->has_index() || *device == self.device())));
  if (same_device && layout.value_or(at::kStrided) == at::kStrided) {
    return cast(self, dtype.value_or(self.scalar_type()),
                format.value_or(at::MemoryFormat::Preserve));
  }
  // PyTorch's own makes a row-major tensor first, since it takes xla for a device without strides.
  const bool from_cpu = self.device().is_cpu() && device && device->is_xla() &&
                        self.layout() == at::kStrided &&
                        layout.value_or(at::kStrided) == at::kStrided && !self.is_quantized() &&
                        !pin_memory.value_or(false);
  if (from_cpu) {
    return translate_errors([&] {
      return copy_to_new(self, dtype.value_or(self.scalar_type()), executor_of(*device),
                         format.value_or(at::MemoryFormat::Preserve), non_blocking);
    });
  }
  const bool to_cpu = self.device().is_xla() && device && device->is_cpu() &&
                      layout.value_or(at::kStrided) == at::kStrided && !pin_memory.value_or(false);
  if (to_cpu) {
    return translate_errors([&] {
      return copy_to_cpu(self, dtype.value_or(self.scalar_type()),
                         format.value_or(at::MemoryFormat::Preserve), non_blocking);
    });
  }
  const bool to_accelerator = self.device().is_xla() && device && is_accelerator(device->type()) &&
                              layout.value_or(at::kStrided) == at::kStrided;
  if (to_accelerator) {
    return translate_errors([&] {
      return copy_to_accelerator(self, dtype.value_or(self.scalar_type()), with_index(*device),
                                 format.value_or(at::MemoryFormat::Preserve));
    });
  }
  const bool from_accelerator = is_accelerator(self.device().type()) && device &&
                                device->is_xla() && self.layout() == at::kStrided &&
                                layout.value_or(at::kStrided) == at::kStrided;
  if (from_accelerator) {
    return translate_errors([&] {
      return copy_to_new(self, dtype.value_or(self.scalar_type()), executor_of(*device),
                         format.value_or(at::MemoryFormat::Preserve), non_blocking);
    });
  }
  return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, format);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  static base::Counter& numbers = base::counter("transfer.numbers_read");
  numbers.add();
  at::Scalar scalar;
  translate_errors(
      [&] { with_host_view(self, [&](const at::Tensor& view) { scalar = view.item(); }); });
  return scalar;
}

}  // namespace

void with_host_view(const at::Tensor& tensor, const std::function<void(const at::Tensor&)>& use) {
  graph::Executor& executor = executor_of(tensor);
  const at::TensorOptions options = tensor.options().device(at::kCPU);
  if (tensor.numel() == 0) {
    return use(at::empty_strided(tensor.sizes(), tensor.strides(), options));
  }
  const bool is_half = tensor.scalar_type() == at::kComplexHalf;  // its value has wider elements
  const c10::ScalarType held = is_half ? at::kComplexFloat : held_dtype(tensor.scalar_type());
  if (held != tensor.scalar_type() || !transfer::uses_host_memory(*executor.client())) {
    at::Tensor host = at::empty(tensor.sizes(), options.dtype(held));
    const graph::SharedBufferPtr buffer = executor.buffer(value_of(tensor));
    transfer::device_to_host(*executor.client(), buffer->buffer,
                             {host.mutable_data_ptr(), span_of(host.sizes()), {}});
    executor.raise_failed_checks();
    return use(host.to(tensor.scalar_type()));
  }
  const graph::SharedBufferPtr buffer = executor.buffer(storage_value(tensor));
  buffer->buffer.ready_event().await("read a tensor");
  executor.raise_failed_checks();
  auto* data = static_cast<char*>(buffer->buffer.device_pointer()) +
               tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  const at::Tensor view = at::from_blob(data, tensor.sizes(), tensor.strides(), options);
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  use(view);
}

at::Tensor copy_to_new(const at::Tensor& src, c10::ScalarType dtype, graph::Executor& executor,
                       at::MemoryFormat format, bool non_blocking) {
  transfer::DeferredCopies::wait();  // one may be on its way into the source
  const auto strides = strides_for(src, format);
  const at::IntArrayRef target = strides ? at::IntArrayRef(*strides) : at::IntArrayRef();
  if (src.numel() == 0) {
    const c10::Device device(c10::kXLA, static_cast<c10::DeviceIndex>(executor.index()));
    const at::TensorOptions options = at::TensorOptions().dtype(dtype).device(device);
    return strides ? at::empty_strided(src.sizes(), *strides, options)
                   : at::empty(src.sizes(), options);
  }
  return uploaded_tensor(executor, bring(src, dtype, target, executor, non_blocking), dtype,
                         src.sizes(), target);
}

void copy_tensor(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  check_broadcasts_to(dst, src);
  if (dst.numel() == 0) return;
  // Copies come one after another, as on a stream; only a further one to the host can be left, too.
  const bool may_be_left = non_blocking && !dst.device().is_xla();
  if (!may_be_left) transfer::DeferredCopies::wait();
  if (dst.device().is_xla()) at::assert_no_internal_overlap(dst);
  const at::Tensor source = src.sizes() == dst.sizes() ? src : src.expand(dst.sizes());
  if (!dst.device().is_xla()) {
    if (dst.is_cpu()) return copy_to_host(source, dst, non_blocking);
    dst.copy_(copy_to_accelerator(source, source.scalar_type(), dst.device(),
                                  at::MemoryFormat::Preserve));
    return;
  }
  if (source.device().is_xla()) {
    at::assert_no_partial_overlap(dst, src);
    if (&executor_of(source) != &executor_of(dst)) return copy_between_devices(source, dst);
    return write(dst, cast_value(src, dst.scalar_type(), dst.sizes()));
  }
  copy_to_device(src, dst, non_blocking);
}

at::Tensor cast(const at::Tensor& tensor, c10::ScalarType dtype, at::MemoryFormat format) {
  graph::Executor& executor = executor_of(tensor);
  graph::Value value = cast_value(tensor, dtype, tensor.sizes());
  const auto strides = strides_for(tensor, format);
  if (!strides) return make_tensor(executor, std::move(value), dtype);
  return make_tensor(executor, std::move(value), dtype, *strides);
}

// What functionalisation makes of `copy_`.
static at::Tensor copy(const at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  at::Tensor result = at::empty_strided(self.sizes(), self.strides(), self.options());
  return result.copy_(src, non_blocking);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("copy", TORCH_FN(copy));
  m.impl("clone", TORCH_FN(clone));
  m.impl("_to_copy", TORCH_FN(to_copy));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

// Of two backends PyTorch asks the one that it lists last, and it lists these after xla. Their
// tensors' other copies go on as they would without this.
TORCH_LIBRARY_IMPL(aten, XPU, m) { m.impl("_to_copy", TORCH_FN(to_copy)); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_to_copy", TORCH_FN(to_copy)); }

}  // namespace torch_pjrt::aten
