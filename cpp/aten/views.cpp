#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "aten/device.h"
#include "aten/storage.h"

// Views and resizes are PyTorch's own: they only touch the tensor's geometry. The contents of a
// grown storage are resized when they are next read (see contents_of).
namespace torch_pjrt::aten {
namespace {

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  return at::native::view(self, sizes);
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, sizes, strides);
}

at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}

at::Tensor view_as_real(const at::Tensor& self) { return at::native::view_as_real(self); }
at::Tensor view_as_complex(const at::Tensor& self) { return at::native::view_as_complex(self); }

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return at::native::is_set_to(self, other);
}

// Makes the storage as long as the tensor's geometry asks.
void need_storage(const at::Tensor& self) {
  const size_t bytes = at::detail::computeStorageNbytes(self.sizes(), self.strides(),
                                                        self.itemsize(), self.storage_offset());
  c10::StorageImpl& storage = *self.storage().unsafeGetStorageImpl();
  if (bytes > storage.nbytes()) {
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    grow_storage(storage, bytes);
  }
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef sizes,
                          std::optional<at::MemoryFormat> format) {
  c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
  if (self.sizes() == sizes && !format) return self;
  impl.set_sizes_contiguous(sizes);
  need_storage(self);
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl.empty_tensor_restride(*format);
  }
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, at::Storage source, int64_t offset,
                               at::IntArrayRef sizes, at::IntArrayRef strides) {
  TORCH_CHECK(source.device() == self.device(), "set_ a tensor on ", self.device(),
              " to a storage on ", source.device(),
              ": they must be on the same device; copy the tensor instead");
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(std::move(source));
  if (strides.data() == nullptr || (strides.empty() && !sizes.empty())) {
    impl.set_storage_offset(offset);
    impl.set_sizes_contiguous(sizes);
  } else {
    impl.set_sizes_and_strides(sizes, strides, offset);
  }
  need_storage(self);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const int64_t count = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_offset(self, std::move(source), 0, count, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(),
                            source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  return set_storage_offset(self, make_storage(executor_of(self.device()), 0), 0, {0}, {});
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(view));
  m.impl("_reshape_alias", TORCH_FN(reshape_alias));
  m.impl("unfold", TORCH_FN(unfold));
  m.impl("view_as_real", TORCH_FN(view_as_real));
  m.impl("view_as_complex", TORCH_FN(view_as_complex));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_", TORCH_FN(set_nothing));
}

}  // namespace
}  // namespace torch_pjrt::aten
