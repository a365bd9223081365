#pragma once

#include <span>

#include "graph/node.h"

namespace torch_pjrt::graph {

// A strided window into a storage, in elements: element (i0, i1, ...) is at
// offset + i0 * strides[0] + i1 * strides[1] + ... Strides are not negative (as in PyTorch).
struct StridedView {
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  int64_t offset = 0;
};

// Whether the view is row-major without gaps and starts at 0.
bool is_plain(const StridedView& view) noexcept;

// Records reading `view` of a storage with these contents: an array of `view.sizes`. Written as
// reshape, slice, transpose and broadcast where the strides nest, and as a gather where not.
Value read_view(const Value& contents, const StridedView& view);

// Records writing `update`, an array of `view.sizes`, through `view`: the storage's new contents,
// with the type of `contents`. Where elements of the view overlap, which of them stays is
// undefined.
Value write_view(const Value& contents, const StridedView& view, const Value& update);

// Records a dense array with its dimensions in the order that `strides` (dense, any order) puts
// them in a storage.
Value storage_order(const Value& value, std::span<const int64_t> strides);

// Records seeing the same bytes as another element type, as torch.Tensor.view(dtype) does: an array
// of one dimension. The contents are at least one element of that type long.
Value reinterpret(const Value& contents, ElementType element);

// Records the first `count` elements of the contents as an array of one dimension, with unspecified
// elements (zeros) where there are fewer.
Value resize(const Value& contents, int64_t count);

}  // namespace torch_pjrt::graph
