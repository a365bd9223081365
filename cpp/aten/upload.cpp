#include "aten/upload.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "aten/dtype_policy.h"
#include "aten/import.h"
#include "aten/storage.h"
#include "aten/types.h"
#include "base/metrics.h"
#include "transfer/host_memory_pool.h"

namespace torch_pjrt::aten {
namespace {

// The dimensions from the outermost to the innermost in memory.
c10::DimVector memory_order(at::IntArrayRef strides) {
  c10::DimVector order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return order;
}

void count_cast(const at::Tensor& tensor, c10::ScalarType dtype) {
  if (tensor.scalar_type() == dtype) return;
  static base::Counter& calls = base::counter("transfer.cast.calls");
  static base::Counter& bytes = base::counter("transfer.cast.bytes");
  calls.add();
  bytes.add(static_cast<int64_t>(tensor.nbytes()));
  base::counter(c10::str("transfer.cast.", tensor.scalar_type(), "_to_", dtype)).add();
}

graph::Value data_value(pjrt::Buffer buffer, graph::Type type) {
  graph::SharedBufferPtr shared(new graph::SharedBuffer(std::move(buffer)));
  return {graph::Node::data(std::move(shared), std::move(type)), 0};
}

}  // namespace

HostArray::HostArray(const at::Tensor& tensor, at::IntArrayRef target_strides)
    : data_(tensor.const_data_ptr()),
      type_(stored_type(tensor.scalar_type())),
      sizes_(tensor.sizes()) {
  const auto item = static_cast<int64_t>(tensor.itemsize());
  // Else the plugin would read too much or too little.
  TORCH_INTERNAL_ASSERT((pjrt::bit_width(type_) + 7) / 8 == item, "copy a ", tensor.scalar_type(),
                        " tensor to device xla: it goes as another element type");
  const at::IntArrayRef strides = tensor.strides();
  if (target_strides.empty()) {
    if (tensor.is_contiguous()) return;
    byte_strides_ = c10::DimVector(strides);
    for (int64_t& stride : byte_strides_) stride *= item;
    return;
  }
  byte_strides_.resize(sizes_.size());
  const c10::DimVector order = memory_order(target_strides);
  for (size_t i = 0; i < order.size(); ++i) {
    sizes_[i] = tensor.size(order[i]);
    byte_strides_[i] = strides[static_cast<size_t>(order[i])] * item;
  }
}

bool goes_as_it_is(const at::Tensor& tensor, c10::ScalarType dtype) {
  return tensor.scalar_type() == held_dtype(dtype) && !tensor.is_conj() && !tensor.is_neg();
}

graph::Value upload(const at::Tensor& tensor, c10::ScalarType dtype, at::IntArrayRef target_strides,
                    const graph::Executor& executor, bool may_hold) {
  const pjrt::Client& client = *executor.client();
  if (goes_as_it_is(tensor, dtype)) {
    const HostArray array(tensor, target_strides);
    if (graph::Value shared = import_from_cpu(tensor, array.source(), executor)) return shared;
    transfer::HoldSource hold_source;
    if (may_hold) hold_source = [&] { return transfer::hold(at::Tensor(tensor)); };
    return data_value(
        transfer::host_to_device(client, executor.device(), array.source(), hold_source),
        array.type());
  }
  const c10::ScalarType held = held_dtype(dtype);
  if (held != dtype && check_narrowing()) {
    check_fits(dtype == tensor.scalar_type() ? tensor : tensor.to(dtype), held);
  }
  dtype = held;
  count_cast(tensor, dtype);
  transfer::HostBlock block = transfer::HostMemoryPool::shared().allocate(
      static_cast<size_t>(tensor.numel()) * c10::elementSize(dtype));
  const at::AutoDispatchBelowADInplaceOrView no_gradient;
  const auto options = tensor.options().dtype(dtype).requires_grad(false);
  at::Tensor cast = target_strides.empty()
                        ? at::from_blob(block.data(), tensor.sizes(), options)
                        : at::from_blob(block.data(), tensor.sizes(), target_strides, options);
  cast.copy_(tensor);
  graph::Type type = HostArray(cast, target_strides).type();
  const pjrt::ArraySpec spec{type.element, type.dimensions};
  pjrt::Buffer buffer = transfer::block_to_device(client, executor.device(), spec, std::move(block),
                                                  transfer::BlockOrigin::kCast);
  return data_value(std::move(buffer), std::move(type));
}

at::Tensor uploaded_tensor(graph::Executor& executor, graph::Value value, c10::ScalarType dtype,
                           at::IntArrayRef sizes, at::IntArrayRef target_strides) {
  const size_t bytes = static_cast<size_t>(value.type().element_count()) * c10::elementSize(dtype);
  c10::Storage storage = make_storage(executor, bytes);
  cell_of(*storage.unsafeGetStorageImpl()).set(std::move(value));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::XLA),
      c10::scalarTypeToTypeMeta(dtype));
  if (target_strides.empty()) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  } else {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, target_strides);
  }
  return tensor;
}

}  // namespace torch_pjrt::aten
