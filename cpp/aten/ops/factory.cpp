#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "aten/device.h"
#include "aten/layout.h"
#include "aten/number_range.h"
#include "aten/record.h"
#include "aten/storage.h"
#include "aten/types.h"

// Operators that make tensors from no tensor's contents.
namespace torch_pjrt::aten {
namespace {

void check_layout(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided,
                              "make a tensor with layout ", *layout,
                              " on device xla: only strided tensors are supported there; make it "
                              "on cpu");
  TORCH_CHECK(!pin_memory.value_or(false),
              "make a pinned tensor on device xla: only cpu tensors can be pinned; drop "
              "pin_memory=True");
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  check_layout(layout, pin_memory);
  const at::ScalarType type = dtype_or_default(dtype);
  element_type(type);  // refuses what no device array holds
  graph::Executor& executor = executor_of(device);
  c10::DeviceGuard guard(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(executor.index())));
  return at::detail::empty_generic(sizes, &cell_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::XLA), type, format);
}

// PyTorch's own does not preserve the order of dimensions on device xla where there are gaps.
at::Tensor empty_like(const at::Tensor& self, std::optional<at::ScalarType> dtype,
                      std::optional<at::Layout> layout, std::optional<at::Device> device,
                      std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  const bool preserves = format.value_or(at::MemoryFormat::Preserve) == at::MemoryFormat::Preserve;
  if (preserves && layout.value_or(at::kStrided) == at::kStrided && self.layout() == at::kStrided) {
    if (const auto strides = preserved_strides(self)) {
      const at::TensorOptions asked =
          at::TensorOptions().dtype(dtype).device(device).pinned_memory(pin_memory);
      return at::empty_strided(self.sizes(), *strides, self.options().merge_in(asked));
    }
  }
  return at::native::empty_like(self, dtype, layout, device, pin_memory, format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  check_layout(layout, pin_memory);
  const at::ScalarType type = dtype_or_default(dtype);
  element_type(type);
  graph::Executor& executor = executor_of(device);
  c10::DeviceGuard guard(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(executor.index())));
  return at::detail::empty_strided_generic(sizes, strides, &cell_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::XLA), type);
}

// 0, 1 and -1 are constants, for the sake of what the compiler makes of them; other numbers are
// parameters, so that a changing one does not compile again.
at::Tensor& fill_with(at::Tensor& self, const at::Scalar& value) {
  static constexpr Operator constant{
      "aten::fill.constant",
      [](Emission& e) { e.result(e.builder().filled(e.result_type(), e.attributes.integer())); }};
  static constexpr Operator op{
      "aten::fill", [](Emission& e) {
        e.result(e.builder().broadcast_to(e.operand(0), e.result_type().dimensions));
      }};
  graph::Executor& executor = executor_of(self);
  if (!value.isComplex()) {
    const double number = value.toDouble();
    const bool is_signed = c10::isSignedType(self.scalar_type());
    if (number == 0 ? !std::signbit(number) : number == 1 || (number == -1 && is_signed)) {
      Record record(constant);
      record.on(executor).attribute(static_cast<int64_t>(number));
      write(self, record.value_result(self.scalar_type(), self.sizes()));
      return self;
    }
  }
  // Not write_to: filling elements that overlap is well defined.
  Record record(op);
  record.on(executor).number(value, self.scalar_type());
  write(self, record.value_result(self.scalar_type(), self.sizes()));
  return self;
}

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  check_fits(value, self.scalar_type());
  return fill_with(self, value);
}

// Unlike fill_, CPU lets too large a number be infinite in a floating dtype shorter than float32.
at::Tensor scalar_tensor(const at::Scalar& value, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin_memory) {
  const at::ScalarType type = dtype_or_default(dtype);
  const bool is_short = c10::isFloatingType(type) && c10::elementSize(type) < sizeof(float);
  if (!is_short || value.isComplex()) check_fits(value, type);
  at::Tensor result = empty({}, type, layout, device, pin_memory, std::nullopt);
  return fill_with(result, value);
}

at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
  if (value.device().is_cpu()) return fill_scalar(self, value.item());
  return self.copy_(self.is_alias_of(value) ? value.clone() : value);
}

// PyTorch's zero of gradients that are not computed: it knows the tensor by its key, and makes an
// ordinary one where an operator needs it.
at::Tensor efficient_zeros(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device,
                           std::optional<bool> pin_memory) {
  check_layout(layout, pin_memory);
  const at::ScalarType type = dtype_or_default(dtype);
  element_type(type);
  graph::Executor& executor = executor_of(device);
  c10::DeviceGuard guard(c10::Device(c10::kXLA, static_cast<c10::DeviceIndex>(executor.index())));
  const auto keys = c10::DispatchKeySet(c10::DispatchKey::XLA) |
                    c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  at::Tensor result = at::detail::empty_generic(sizes, &cell_allocator(), keys, type, std::nullopt);
  return fill_with(result, 0);
}

at::Tensor& zero_(at::Tensor& self) { return fill_scalar(self, 0); }

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("empty_like", TORCH_FN(empty_like));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
  m.impl("scalar_tensor", TORCH_FN(scalar_tensor));
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor));
  m.impl("zero_", TORCH_FN(zero_));
}

}  // namespace
}  // namespace torch_pjrt::aten
