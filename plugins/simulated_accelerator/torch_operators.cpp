// The simulated accelerator's operators: PyTorch's own CPU kernels, run late on a stream.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <cstdio>
#include <optional>

#include "torch_device.h"

namespace simulated {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

// The tensor's elements for work on a stream. Like a kernel's argument it keeps nothing alive.
at::Tensor real_view(const at::Tensor& tensor) {
  auto* const base = static_cast<char*>(real(tensor.storage().data()));
  void* const data = base + tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  at::Tensor view = at::from_blob(data, tensor.sizes(), tensor.strides(),
                                  tensor.options().device(at::kCPU).requires_grad(false));
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

// A write, which PyTorch tells the storage of.
void will_write(const at::Tensor& tensor) { tensor.storage().mutable_data(); }

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, &allocator(), kKeys, c10::dtype_or_default(dtype),
                                   format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, &allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

// Replaces the tensors of an argument, also within lists.
c10::IValue replaced(const c10::IValue& argument,
                     const std::function<at::Tensor(const at::Tensor&)>& replace) {
  if (argument.isTensor()) return replace(argument.toTensor());
  if (argument.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : argument.toTensorVector()) list.push_back(replace(tensor));
    return list;
  }
  if (argument.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(replace(*tensor)) : std::nullopt);
    }
    return list;
  }
  return argument;
}

at::Tensor to_meta(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(at::kMeta).requires_grad(false));
}

at::Tensor to_work(const at::Tensor& tensor) {
  if (is_ours(tensor)) return real_view(tensor);
  if (!tensor.defined()) return tensor;
  at::Tensor kept = tensor.clone();  // the host may change it meanwhile
  kept.unsafeGetTensorImpl()->set_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number());
  return kept;
}

// Runs a CPU operator on the current stream; on the stack, results take the place of arguments.
void run_late(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<ptrdiff_t>(count),
                                           stack->end());
  torch::jit::drop(*stack, count);

  std::optional<c10::Device> device;
  for (const c10::IValue& argument : arguments) {
    replaced(argument, [&](const at::Tensor& tensor) {
      if (is_ours(tensor) && !device) device = tensor.device();
      TORCH_CHECK(!tensor.defined() || is_ours(tensor) || tensor.dim() == 0, "run ", schema.name(),
                  ": all tensors must be on the simulated accelerator; got one on ",
                  tensor.device());
      return tensor;
    });
    if (argument.isDevice() && !device) device = argument.toDevice();
  }
  TORCH_CHECK(device, "run ", schema.name(), ": no argument says on which device");
  const c10::DeviceGuard guard(*device);

  // The shapes of the results, now.
  torch::jit::Stack metas;
  for (const c10::IValue& argument : arguments) {
    metas.push_back(argument.isDevice() ? c10::IValue(c10::Device(c10::kMeta))
                                        : replaced(argument, to_meta));
  }
  const torch::jit::Stack meta_arguments = metas;
  op.callBoxed(&metas);

  std::vector<at::Tensor> results;  // those that are new
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    const c10::AliasInfo* const alias = schema.returns()[i].alias_info();
    if (alias == nullptr) {
      stack->push_back(replaced(metas[i], [&](const at::Tensor& meta) {
        if (!meta.defined()) return meta;
        results.push_back(
            at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(*device)));
        return results.back();
      }));
      continue;
    }
    TORCH_CHECK(alias->isWrite(), "run ", schema.name(), ": it makes a view");
    for (size_t a = 0; a < count; ++a) {
      const c10::AliasInfo* const other = schema.arguments()[a].alias_info();
      if (other == nullptr || !(*other == *alias)) continue;
      if (arguments[a].isTensor()) {
        const at::Tensor& meta = meta_arguments[a].toTensor();
        if (meta.sizes() != arguments[a].toTensor().sizes()) {
          arguments[a].toTensor().resize_(meta.sizes());
        }
      }
      stack->push_back(arguments[a]);
      break;
    }
  }

  // The contents, late. Memory that is written is told of before its address is taken.
  for (size_t a = 0; a < count; ++a) {
    const c10::AliasInfo* const alias = schema.arguments()[a].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    replaced(arguments[a], [](const at::Tensor& tensor) {
      if (is_ours(tensor)) will_write(tensor);
      return tensor;
    });
  }
  torch::jit::Stack work;
  for (const c10::IValue& argument : arguments) {
    work.push_back(argument.isDevice() ? c10::IValue(c10::Device(c10::kCPU))
                                       : replaced(argument, to_work));
  }
  std::vector<at::Tensor> targets;
  for (const at::Tensor& result : results) targets.push_back(real_view(result));
  enqueue(*device, [op, work, targets]() mutable {
    try {
      const at::AutoDispatchBelowAutograd guard;
      op.callBoxed(&work);
      auto target = targets.begin();
      for (size_t i = 0; i < op.schema().returns().size(); ++i) {
        if (op.schema().returns()[i].alias_info() != nullptr) continue;
        replaced(work[i], [&](const at::Tensor& result) {
          if (result.defined()) (target++)->copy_(result);
          return result;
        });
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "simulated accelerator: %s: %s\n", op.schema().name().c_str(),
                   error.what());
      std::abort();
    }
  });
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run_late(op, stack); }

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool) {
  if (target.numel() == 0) return target;
  const at::Tensor source = self.expand(target.sizes());
  if (is_ours(self) && is_ours(target)) {
    if (self.device() == target.device()) {
      will_write(target);
      enqueue(target.device(), [from = real_view(source), to = real_view(target)] {
        const at::AutoDispatchBelowAutograd guard;
        to.copy_(from);
      });
    } else {
      target.copy_(source.cpu());
    }
  } else if (is_ours(target)) {
    if (!self.is_cpu()) return target.copy_(source.cpu());
    will_write(target);
    // The host may change its tensor as soon as this returns.
    const at::Tensor kept = source.to(target.scalar_type(), false, true);
    enqueue(target.device(), [kept, to = real_view(target)] {
      const at::AutoDispatchBelowAutograd guard;
      to.copy_(kept);
    });
  } else if (target.is_cpu()) {
    at::Tensor host = at::empty(source.sizes(), source.options().device(at::kCPU));
    enqueue(self.device(), [from = real_view(source), host] {
      const at::AutoDispatchBelowAutograd guard;
      host.copy_(from);
    });
    synchronize(self.device());
    target.copy_(host);
  } else {
    target.copy_(source.cpu());
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  target.resize_(self.sizes());
  return copy_from(self, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) { return self.cpu().item(); }

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format) impl->empty_tensor_restride(*format);
  const size_t needed = at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.itemsize(), static_cast<size_t>(self.storage_offset()));
  const size_t old = self.storage().nbytes();
  if (needed <= old) return self;
  const c10::DeviceGuard guard(self.device());
  c10::DataPtr data = allocator().allocate(needed);
  if (old != 0) allocator().copy_data(data.get(), self.storage().data(), old);
  self.storage().set_data_ptr_noswap(std::move(data));
  self.storage().set_nbytes(needed);
  return self;
}

at::Tensor& set(at::Tensor& self, at::Storage storage, int64_t offset, at::IntArrayRef sizes,
                at::IntArrayRef strides) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  if (strides.size() == sizes.size()) {
    impl->set_sizes_and_strides(sizes, strides, offset);
  } else {
    impl->set_storage_offset(offset);
    impl->set_sizes_contiguous(sizes);
  }
  return self;
}

c10::OperatorHandle handle(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, c10::SymIntArrayRef stride,
                       c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
                       c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  static const c10::OperatorHandle op = handle("aten::convolution");
  torch::jit::Stack stack;
  torch::jit::push(stack, input, weight, bias, stride, padding, dilation, transposed,
                   output_padding, groups);
  run_late(op, &stack);
  return stack[0].toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
    bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups,
    std::array<bool, 3> mask) {
  static const c10::OperatorHandle op = handle("aten::convolution_backward");
  const std::vector<int64_t> bias_sizes{grad.size(1)};
  torch::jit::Stack stack;
  torch::jit::push(stack, grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
                   output_padding, groups, mask);
  run_late(op, &stack);
  return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  c10::impl::VirtualGuardImpl(stream.device_type())
      .recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set));
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
}

}  // namespace
}  // namespace simulated
