#include "aten/batch_copy.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include <deque>
#include <map>
#include <optional>

#include "aten/device.h"
#include "aten/dtype_policy.h"
#include "aten/errors.h"
#include "aten/layout.h"
#include "aten/tensor.h"
#include "aten/upload.h"
#include "aten/zero_copy.h"
#include "transfer/deferred_copies.h"
#include "transfer/device_to_host.h"
#include "transfer/host_addressing.h"
#include "transfer/host_to_device.h"

namespace torch_pjrt::aten {
namespace {

// Whether a batch may take it: else `.to` knows what to do.
bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.numel() != 0 && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.key_set().has(c10::DispatchKey::Python) &&
         !is_narrowed(tensor.scalar_type()) &&
         !(tensor.requires_grad() && at::GradMode::is_enabled());
}

// Whether the tensor is all of its storage, dense in any order of dimensions.
bool is_dense_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         tensor.nbytes() == tensor.storage().nbytes();
}

}  // namespace

std::vector<at::Tensor> to_device(const std::vector<at::Tensor>& tensors, c10::Device device) {
  graph::Executor& executor =
      translate_errors([&]() -> graph::Executor& { return executor_of(device); });
  const bool is_shared = zero_copy_wanted();  // then one by one
  std::vector<at::Tensor> results(tensors.size());
  std::vector<size_t> places;
  std::vector<std::optional<c10::DimVector>> strides;
  std::vector<HostArray> arrays;
  std::vector<transfer::HostToDeviceCopy> copies;
  places.reserve(tensors.size());
  strides.reserve(tensors.size());
  arrays.reserve(tensors.size());  // not only for speed: the copies point into its elements
  copies.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (!tensor.device().is_cpu() || !is_plain(tensor) || is_shared) continue;
    places.push_back(i);
    strides.push_back(preserved_strides(tensor));
    arrays.emplace_back(tensor,
                        strides.back() ? at::IntArrayRef(*strides.back()) : at::IntArrayRef());
    copies.push_back({executor.device(), arrays.back().source(), {}});
  }
  // The tensors are made while others are copied.
  const auto take = [&](size_t k, pjrt::Buffer made) {
    const at::Tensor& tensor = tensors[places[k]];
    graph::SharedBufferPtr buffer(new graph::SharedBuffer(std::move(made)));
    graph::Value value{graph::Node::data(std::move(buffer), arrays[k].type()), 0};
    results[places[k]] =
        uploaded_tensor(executor, std::move(value), tensor.scalar_type(), tensor.sizes(),
                        strides[k] ? at::IntArrayRef(*strides[k]) : at::IntArrayRef());
  };
  transfer::DeferredCopies::wait();  // one may be on its way into a source
  translate_errors([&] { transfer::host_to_device(*executor.client(), copies, take); });
  const c10::Device target(c10::kXLA, static_cast<c10::DeviceIndex>(executor.index()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!results[i].defined()) results[i] = tensors[i].to(target);
  }
  return results;
}

std::vector<at::Tensor> to_host(const std::vector<at::Tensor>& tensors) {
  struct Batch {
    std::vector<graph::SharedBufferPtr> buffers;
    std::vector<transfer::DeviceToHostCopy> copies;
    std::deque<int64_t> counts;
  };
  std::map<graph::Executor*, Batch> batches;
  std::vector<at::Tensor> results(tensors.size());
  translate_errors([&] {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const at::Tensor& tensor = tensors[i];
      if (!tensor.device().is_xla() || !is_plain(tensor) || !is_dense_storage(tensor)) continue;
      graph::Executor& executor = executor_of(tensor);
      if (transfer::uses_host_memory(*executor.client())) continue;  // shared below
      Batch& batch = batches[&executor];
      batch.buffers.push_back(executor.buffer(contents_of(tensor)));
      results[i] = at::empty_strided(tensor.sizes(), tensor.strides(),
                                     tensor.options().device(at::kCPU).requires_grad(false));
      batch.counts.push_back(tensor.numel());
      batch.copies.push_back({&batch.buffers.back()->buffer,
                              {results[i].mutable_data_ptr(), {&batch.counts.back(), 1}, {}}});
    }
    for (auto& [executor, batch] : batches) {
      transfer::device_to_host(*executor->client(), batch.copies);
      executor->raise_failed_checks();
    }
  });
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!results[i].defined()) results[i] = tensors[i].to(at::kCPU);
  }
  return results;
}

}  // namespace torch_pjrt::aten
