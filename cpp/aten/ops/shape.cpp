#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/TensorTransformations.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/tril_indices.h>
#include <ATen/ops/triu_indices.h>
#include <torch/library.h>

#include "aten/device.h"
#include "aten/layout.h"
#include "aten/record.h"

// Rearranging elements, and matrices by their diagonals.
namespace torch_pjrt::aten {
namespace {

using graph::ElementType;

constexpr Operator kFlip{"aten::flip", [](Emission& e) {
                           e.result(e.builder().reverse(e.operand(0), e.attributes.list()));
                         }};

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dims) {
  const auto chosen = at::dim_list_to_bitset(dims, self.dim());
  c10::DimVector sorted;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (chosen[static_cast<size_t>(d)]) sorted.push_back(d);
  }
  Record record(kFlip);
  record.tensor(self).attribute(at::IntArrayRef(sorted));
  return record.result(self.scalar_type(), self.sizes(), preserved_strides(self));
}

at::Tensor roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  if (dims.size() != 1 || shifts.size() != 1) {
    return at::native::roll_common(self, shifts, dims);
  }
  if (self.numel() == 0) return self.clone(at::MemoryFormat::Preserve);
  const int64_t size = self.size(dims[0]);
  int64_t start = (size - shifts[0]) % size;
  if (start < 0) start += size;
  return at::cat({self.narrow(dims[0], start, size - start), self.narrow(dims[0], 0, start)},
                 dims[0]);
}

// Column minus row of every element of a matrix (batch).
Operand diagonal_of(StableHloBuilder& b, const graph::Dimensions& sizes) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  const graph::Dimensions matrix{sizes[sizes.size() - 2], sizes[sizes.size() - 1]};
  const graph::Type type{ElementType::kS32, matrix};
  return b.broadcast_in_dim(b.subtract(b.iota(type, 1), b.iota(type, 0)), sizes,
                            {rank - 2, rank - 1});
}

// attributes: diagonal, upper
constexpr Operator kTriangle{"aten::triangle", [](Emission& e) {
                               StableHloBuilder& b = e.builder();
                               const Operand x = e.operand(0);
                               const int64_t diagonal = e.attributes.integer();
                               const Operand at = diagonal_of(b, x.dimensions());
                               const Operand kept = e.attributes.boolean()
                                                        ? b.greater_equal(at, diagonal)
                                                        : b.less_equal(at, diagonal);
                               e.result(b.select(kept, x, b.zeros_like(x)));
                             }};

template <bool kUpper>
at::Tensor triangle(const at::Tensor& self, int64_t diagonal) {
  TORCH_CHECK(self.dim() >= 2, kUpper ? "triu" : "tril",
              ": input tensor must have at least 2 dimensions");
  // Beyond the corners every diagonal is the same.
  const int64_t bound = std::max(self.size(-1), self.size(-2)) + 1;
  return Record(kTriangle)
      .tensor(self)
      .attribute(std::clamp(diagonal, -bound, bound))
      .attribute(kUpper)
      .result(self.scalar_type(), self.sizes());
}

constexpr Operator kEye{"aten::eye", [](Emission& e) {
                          StableHloBuilder& b = e.builder();
                          const graph::Type& type = e.result_type();
                          const Operand on = b.equal(diagonal_of(b, type.dimensions), 0);
                          e.result(b.convert(on, type.element));
                        }};

at::Tensor& eye_out(int64_t n, int64_t m, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  out.resize_({n, m});
  Record(kEye).on(executor_of(out)).write_to(out);
  return out;
}

at::Tensor& eye_square_out(int64_t n, at::Tensor& out) { return eye_out(n, n, out); }

at::Tensor trace(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

// Indices of a triangle depend on no tensor: PyTorch makes them on the host.
at::Tensor tril_indices(int64_t row, int64_t col, int64_t offset,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                        std::optional<at::Device> device, std::optional<bool> pin_memory) {
  at::native::check_args(row, col, layout);
  (void)pin_memory;
  return at::tril_indices(row, col, offset, at::TensorOptions().dtype(dtype).device(at::kCPU))
      .to(device.value_or(at::Device(at::kXLA)));
}

at::Tensor triu_indices(int64_t row, int64_t col, int64_t offset,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                        std::optional<at::Device> device, std::optional<bool> pin_memory) {
  at::native::check_args(row, col, layout);
  (void)pin_memory;
  return at::triu_indices(row, col, offset, at::TensorOptions().dtype(dtype).device(at::kCPU))
      .to(device.value_or(at::Device(at::kXLA)));
}

// attributes: dim
constexpr Operator kCross{
    "aten::linalg_cross", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const int64_t dim = e.attributes.integer();
      const Operand x = b.broadcast_to(b.convert(e.operand(0), type.element), type.dimensions);
      const Operand y = b.broadcast_to(b.convert(e.operand(1), type.element), type.dimensions);
      auto turned = [&](Operand v, int64_t by) {
        return b.concatenate({b.slice_dim(v, dim, by, 3), b.slice_dim(v, dim, 0, by)}, dim);
      };
      e.result(b.subtract(b.multiply(turned(x, 1), turned(y, 2)),
                          b.multiply(turned(x, 2), turned(y, 1))));
    }};

at::Tensor linalg_cross(const at::Tensor& self, const at::Tensor& other, int64_t dim) {
  TORCH_CHECK(self.dim() == other.dim(),
              "linalg.cross: inputs must have the same number of dimensions.");
  TORCH_CHECK(self.size(dim) == 3 && other.size(dim) == 3, "linalg.cross: inputs dimension ", dim,
              " must have length 3. Got ", self.size(dim), " and ", other.size(dim));
  return Record(kCross)
      .tensor(self)
      .tensor(other)
      .attribute(at::maybe_wrap_dim(dim, self.dim()))
      .result(self.scalar_type(), at::infer_size_dimvector(self.sizes(), other.sizes()));
}

// Where, in the unfolded dimension, each window put its elements: their gradients add up.
// attributes: dim, step
constexpr Operator kUnfoldBackward{
    "aten::unfold_backward", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const int64_t dim = e.attributes.integer(), step = e.attributes.integer();
      Operand grad = e.operand(0);  // [..., windows at dim, ..., size]
      const int64_t windows = grad.dimension(dim), size = grad.dimension(-1);
      if (grad.type().element_count() == 0) return e.result(b.zeros(type));
      graph::Dimensions order;
      for (int64_t d = 0; d < grad.rank() - 1; ++d) {
        order.push_back(d);
        if (d == dim) order.push_back(grad.rank() - 1);
      }
      grad = b.transpose(grad, order);
      graph::Dimensions merged = type.dimensions;
      merged[static_cast<size_t>(dim)] = windows * size;
      const graph::Type places{ElementType::kS32, {windows, size}};
      const Operand index =
          b.flatten(b.add(b.multiply(b.iota(places, 0), step), b.iota(places, 1)));
      e.result(b.scatter_slices(b.zeros(type), index, b.reshape(grad, merged), dim,
                                graph::Reducer::kAdd));
    }};

at::Tensor unfold_backward(const at::Tensor& grad, at::IntArrayRef input_sizes, int64_t dim,
                           int64_t size, int64_t step) {
  if (input_sizes.empty()) return grad.sum_to_size({}).clone();
  (void)size;
  return Record(kUnfoldBackward)
      .tensor(grad)
      .attribute(at::maybe_wrap_dim(dim, static_cast<int64_t>(input_sizes.size())))
      .attribute(step)
      .result(grad.scalar_type(), input_sizes);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("flip", TORCH_FN(flip));
  m.impl("roll", TORCH_FN(roll));
  m.impl("tril", TORCH_FN(triangle<false>));
  m.impl("triu", TORCH_FN(triangle<true>));
  m.impl("eye.out", TORCH_FN(eye_square_out));
  m.impl("eye.m_out", TORCH_FN(eye_out));
  m.impl("trace", TORCH_FN(trace));
  m.impl("tril_indices", TORCH_FN(tril_indices));
  m.impl("triu_indices", TORCH_FN(triu_indices));
  m.impl("linalg_cross", TORCH_FN(linalg_cross));
  m.impl("unfold_backward", TORCH_FN(unfold_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
