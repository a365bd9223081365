#include "aten/layout.h"

#include <ATen/ExpandUtils.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace torch_pjrt::aten {
namespace {

c10::DimVector dense_strides(at::IntArrayRef sizes, const c10::DimVector& fastest_first) {
  c10::DimVector strides(sizes.size());
  int64_t next = 1;
  for (int64_t d : fastest_first) {
    strides[d] = next;
    next *= sizes[d];  // 0 beyond an empty dimension
  }
  return strides;
}

// As TensorIterator walks a tensor that is broadcast: 0 along what it lacks or repeats.
c10::DimVector walking_strides(const at::Tensor& tensor, at::IntArrayRef sizes) {
  c10::DimVector strides(sizes.size(), 0);
  const size_t missing = sizes.size() - static_cast<size_t>(tensor.dim());
  for (size_t d = missing; d < sizes.size(); ++d) {
    const auto own = static_cast<int64_t>(d - missing);
    if (tensor.size(own) == sizes[d]) strides[d] = tensor.stride(own);
  }
  return strides;
}

}  // namespace

bool has_default_strides(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (strides[d] != expected) return false;
    expected *= std::max<int64_t>(sizes[d], 1);
  }
  return true;
}

void check_output_sizes(const at::Tensor& output, at::IntArrayRef broadcast) {
  TORCH_CHECK(output.sizes() == broadcast, "output with shape ", output.sizes(),
              " doesn't match the broadcast shape ", broadcast);
}

void check_broadcasts_to(const at::Tensor& output, const at::Tensor& operand) {
  if (output.sizes() == operand.sizes()) return;
  check_output_sizes(output, at::infer_size_dimvector(output.sizes(), operand.sizes()));
}

std::optional<c10::DimVector> elementwise_strides(at::ArrayRef<at::Tensor> tensors,
                                                  at::IntArrayRef sizes, bool beside_number) {
  bool all_contiguous = true, all_default = true, same_dense = true;
  bool same_sizes = !beside_number || sizes.empty();
  const at::Tensor* first = nullptr;
  c10::SmallVector<c10::DimVector, 4> strides;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (tensor.dim() == 0 || !tensor.device().is_xla()) {
      same_sizes = same_sizes && sizes.empty();
      continue;
    }
    const bool full = tensor.sizes() == sizes;
    all_contiguous = all_contiguous && tensor.is_contiguous();
    all_default = all_default && has_default_strides(tensor.sizes(), tensor.strides());
    same_sizes = same_sizes && full;
    same_dense = same_dense && tensor.is_non_overlapping_and_dense() &&
                 (!first || first->strides() == tensor.strides());
    if (!first) first = &tensor;
  }
  if (!first) return std::nullopt;
  // PyTorch takes its short cuts only when all operands have the same sizes: else the strides of
  // dimensions of one element count, too.
  if (same_sizes && all_contiguous) return std::nullopt;
  if (same_sizes && same_dense) return c10::DimVector(first->strides());
  if (all_default && c10::multiply_integers(sizes) != 0) return std::nullopt;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.dim() == 0 || !tensor.device().is_xla()) continue;
    strides.push_back(walking_strides(tensor, sizes));
  }
  // 1: dimension a belongs outside of b; -1: inside; 0: the operands do not tell.
  auto order = [&](int64_t a, int64_t b) {
    for (const c10::DimVector& stride : strides) {
      if (stride[a] == 0 || stride[b] == 0) continue;
      if (stride[a] != stride[b]) return stride[a] < stride[b] ? -1 : 1;
      if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
  };
  c10::DimVector fastest_first(sizes.size());
  std::iota(fastest_first.rbegin(), fastest_first.rend(), 0);
  for (size_t i = 1; i < fastest_first.size(); ++i) {
    size_t b = i;
    for (size_t a = i; a-- > 0;) {
      const int comparison = order(fastest_first[a], fastest_first[b]);
      if (comparison > 0) {
        std::swap(fastest_first[a], fastest_first[b]);
        b = a;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  if (std::ranges::is_sorted(fastest_first, std::greater())) return std::nullopt;
  return dense_strides(sizes, fastest_first);
}

std::optional<c10::DimVector> preserved_strides(const at::Tensor& tensor) {
  // Not Tensor::is_contiguous: the strides of dimensions of size 1 are kept too.
  if (has_default_strides(tensor.sizes(), tensor.strides())) return std::nullopt;
  if (tensor.is_non_overlapping_and_dense()) return c10::DimVector(tensor.strides());
  if (tensor.device().is_xla()) return elementwise_strides(tensor, tensor.sizes());
  c10::DimVector strides(at::infer_dense_strides(tensor.sizes(), tensor.strides()));
  if (has_default_strides(tensor.sizes(), strides)) return std::nullopt;
  return strides;
}

}  // namespace torch_pjrt::aten
