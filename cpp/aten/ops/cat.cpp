#include <ATen/WrapDimUtils.h>
#include <ATen/core/IListRef.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include "aten/record.h"

// Joining tensors.
namespace torch_pjrt::aten {
namespace {

// attributes: dim
constexpr Operator kCat{"aten::cat", [](Emission& e) {
                          StableHloBuilder& b = e.builder();
                          Operands parts;
                          for (const Operand& x : e.operands()) {
                            parts.push_back(b.convert(x, e.result_type().element));
                          }
                          e.result(b.concatenate(parts, e.attributes.integer()));
                        }};

// Tensors of shape [0] join with any shape, for the sake of old programs.
bool is_legacy_empty(const at::Tensor& tensor) { return tensor.dim() == 1 && tensor.size(0) == 0; }

void check_shapes(const at::Tensor& first, const at::Tensor& tensor, int64_t dim, size_t position) {
  TORCH_CHECK(first.dim() == tensor.dim(), "Tensors must have same number of dimensions: got ",
              first.dim(), " and ", tensor.dim());
  for (int64_t d = 0; d < first.dim(); ++d) {
    TORCH_CHECK(d == dim || first.size(d) == tensor.size(d),
                "Sizes of tensors must match except in dimension ", dim, ". Expected size ",
                first.size(d), " but got size ", tensor.size(d), " for tensor number ", position,
                " in the list.");
  }
}

at::MemoryFormat common_format(at::ArrayRef<at::Tensor> tensors) {
  std::optional<at::MemoryFormat> format;
  for (const at::Tensor& tensor : tensors) {
    const at::MemoryFormat suggested = tensor.suggest_memory_format();
    if (suggested == at::MemoryFormat::Contiguous) return suggested;
    if (format && *format != suggested) return at::MemoryFormat::Contiguous;
    format = suggested;
  }
  return format.value_or(at::MemoryFormat::Contiguous);
}

at::Tensor cat(const at::ITensorListRef& list, int64_t dim) {
  std::vector<at::Tensor> given, tensors;
  for (const at::Tensor& tensor : list) given.push_back(tensor);
  TORCH_CHECK(!given.empty(), "torch.cat(): expected a non-empty list of Tensors");
  for (size_t i = 0; i < given.size(); ++i) {
    TORCH_CHECK(given[i].dim() > 0, "zero-dimensional tensor (at position ", i,
                ") cannot be concatenated");
    if (!is_legacy_empty(given[i])) tensors.push_back(given[i]);
  }
  const at::ScalarType dtype = at::native::result_type(at::ITensorListRef(given));
  if (tensors.empty()) {
    at::maybe_wrap_dim(dim, 1);
    return at::empty({0}, given.front().options().dtype(dtype));
  }
  dim = at::maybe_wrap_dim(dim, tensors.front().dim());
  c10::DimVector sizes(tensors.front().sizes());
  sizes[static_cast<size_t>(dim)] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_shapes(tensors.front(), tensors[i], dim, i);
    sizes[static_cast<size_t>(dim)] += tensors[i].size(dim);
  }
  Record record(kCat);
  record.on(executor_of(given)).tensors(tensors).attribute(dim);
  const at::MemoryFormat format = common_format(tensors);
  if (format == at::MemoryFormat::Contiguous) return record.result(dtype, sizes);
  const at::Tensor model =
      at::empty({0}, at::TensorOptions().device(at::kMeta).dtype(dtype)).resize_(sizes, format);
  return record.strided(dtype, sizes, model.strides());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("cat", TORCH_FN(cat)); }

}  // namespace
}  // namespace torch_pjrt::aten
