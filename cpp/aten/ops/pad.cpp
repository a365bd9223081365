#include <ATen/native/Padding.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/number_range.h"
#include "aten/record.h"

// Padding with a constant, a reflection or the border.
namespace torch_pjrt::aten {
namespace {

// The strides of a contiguous tensor of `sizes` in the memory format that `self` suggests.
c10::DimVector suggested_strides(const at::Tensor& self, at::IntArrayRef sizes) {
  const at::Tensor model = at::empty({0}, at::TensorOptions().device(at::kMeta));
  return c10::DimVector(model.resize_(sizes, self.suggest_memory_format()).strides());
}

at::Tensor padded_result(Record& record, const at::Tensor& self, at::IntArrayRef sizes) {
  if (self.suggest_memory_format() == at::MemoryFormat::Contiguous) {
    return record.result(self.scalar_type(), sizes);
  }
  return record.strided(self.scalar_type(), sizes, suggested_strides(self, sizes));
}

// attributes: low, high of every dimension; operand 1: the value
constexpr Operator kConstantPad{"aten::constant_pad_nd", [](Emission& e) {
                                  StableHloBuilder& b = e.builder();
                                  const graph::Dimensions low(e.attributes.list());
                                  const graph::Dimensions high(e.attributes.list());
                                  e.result(b.pad(e.operand(0), e.operand(1), low, high));
                                }};

at::Tensor constant_pad_nd(const at::Tensor& self, at::IntArrayRef pad, const at::Scalar& value) {
  TORCH_CHECK(pad.size() % 2 == 0, "Length of pad must be even but instead it equals ", pad.size());
  const int64_t padded = static_cast<int64_t>(pad.size()) / 2;
  TORCH_CHECK(self.dim() >= padded,
              "Length of pad should be no more than twice the number of "
              "dimensions of the input. Pad length is ",
              pad.size(), " while the input has ", self.dim(), " dimensions.");
  c10::DimVector sizes(self.sizes()), low(sizes.size(), 0), high(sizes.size(), 0);
  for (int64_t i = 0; i < padded; ++i) {
    const size_t d = static_cast<size_t>(self.dim() - 1 - i);
    low[d] = pad[static_cast<size_t>(2 * i)];
    high[d] = pad[static_cast<size_t>(2 * i + 1)];
    sizes[d] += low[d] + high[d];
    TORCH_CHECK(sizes[d] >= 0, "The input size ", self.size(static_cast<int64_t>(d)),
                ", plus negative padding ", low[d], " and ", high[d],
                " resulted in a negative output size, which is invalid. Check dimension ", d,
                " of your input.");
  }
  check_fits(value, self.scalar_type());
  Record record(kConstantPad);
  record.tensor(self).number(value, self.scalar_type());
  record.attribute(at::IntArrayRef(low)).attribute(at::IntArrayRef(high));
  return padded_result(record, self, sizes);
}

enum class Border : int64_t { kReflection, kReplication };

// What stands before (or after) the elements of one dimension.
Operand border(StableHloBuilder& b, Operand x, int64_t dim, int64_t count, bool before,
               Border kind) {
  const int64_t size = x.dimension(dim);
  if (kind == Border::kReflection) {
    const int64_t start = before ? 1 : size - 1 - count;
    return b.reverse(b.slice_dim(x, dim, start, start + count), {dim});
  }
  const int64_t edge = before ? 0 : size - 1;
  graph::Dimensions sizes = x.dimensions();
  sizes[static_cast<size_t>(dim)] = count;
  return b.broadcast_to(b.slice_dim(x, dim, edge, edge + 1), sizes);
}

// attributes: kind, padding (low and high, last dimension first)
constexpr Operator kBorderPad{"aten::border_pad", [](Emission& e) {
                                StableHloBuilder& b = e.builder();
                                if (e.result_type().element_count() == 0)
                                  return e.result(b.zeros(e.result_type()));
                                const Border kind = static_cast<Border>(e.attributes.integer());
                                const graph::Dimensions padding(e.attributes.list());
                                Operand x = e.operand(0);
                                for (size_t i = 0; i < padding.size() / 2; ++i) {
                                  const int64_t dim = x.rank() - 1 - static_cast<int64_t>(i),
                                                size = x.dimension(dim);
                                  const int64_t low = padding[2 * i], high = padding[2 * i + 1];
                                  Operands parts;
                                  if (low > 0) parts.push_back(border(b, x, dim, low, true, kind));
                                  parts.push_back(b.slice_dim(x, dim, std::max<int64_t>(0, -low),
                                                              size - std::max<int64_t>(0, -high)));
                                  if (high > 0)
                                    parts.push_back(border(b, x, dim, high, false, kind));
                                  x = b.concatenate(parts, dim);
                                }
                                e.result(x);
                              }};

// Adds up, in one dimension of `size` elements, what the border took from it.
Operand returned_border(StableHloBuilder& b, Operand gradient, int64_t dim, int64_t size,
                        bool before, Border kind) {
  const int64_t count = gradient.dimension(dim);
  int64_t start = 0;
  Operand x = gradient;
  if (kind == Border::kReflection) {
    x = b.reverse(x, {dim});
    start = before ? 1 : size - 1 - count;
  } else {
    x = b.reduce(x, graph::Reducer::kAdd, {dim}, /*keepdim=*/true);
    start = before ? 0 : size - 1;
  }
  graph::Dimensions low(static_cast<size_t>(x.rank()), 0), high = low;
  low[static_cast<size_t>(dim)] = start;
  high[static_cast<size_t>(dim)] = size - start - x.dimension(dim);
  return b.pad(x, 0, low, high);
}

constexpr Operator kBorderPadBackward{
    "aten::border_pad_backward", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      if (type.element_count() == 0 || e.operand(0).type().element_count() == 0) {
        return e.result(b.zeros(type));
      }
      const Border kind = static_cast<Border>(e.attributes.integer());
      const graph::Dimensions padding(e.attributes.list());
      Operand x = e.operand(0);
      for (size_t i = 0; i < padding.size() / 2; ++i) {
        const int64_t dim = x.rank() - 1 - static_cast<int64_t>(i);
        const int64_t size = type.dimensions[static_cast<size_t>(dim)];
        const int64_t low = padding[2 * i], high = padding[2 * i + 1];
        const int64_t length = x.dimension(dim);
        graph::Dimensions before(static_cast<size_t>(x.rank()), 0), after = before;
        before[static_cast<size_t>(dim)] = -low;
        after[static_cast<size_t>(dim)] = -high;
        Operand sum = b.pad(x, 0, before, after);
        if (low > 0) {
          sum = b.add(sum, returned_border(b, b.slice_dim(x, dim, 0, low), dim, size, true, kind));
        }
        if (high > 0) {
          const Operand end = b.slice_dim(x, dim, length - high, length);
          sum = b.add(sum, returned_border(b, end, dim, size, false, kind));
        }
        x = sum;
      }
      e.result(x);
    }};

template <int kDims>
c10::DimVector padded_sizes(const at::Tensor& self, at::IntArrayRef padding, Border kind) {
  at::native::padding::check_valid_input<kDims>(self, padding);
  c10::DimVector sizes(self.sizes());
  for (size_t i = 0; i < kDims; ++i) {
    const size_t d = sizes.size() - 1 - i;
    const int64_t size = sizes[d], low = padding[2 * i], high = padding[2 * i + 1];
    TORCH_CHECK(kind == Border::kReplication || (low < size && high < size), "Argument #",
                2 * kDims + 2 - 2 * i,
                ": Padding size should be less than the corresponding input dimension, but got: "
                "padding (",
                low, ", ", high, ") at dimension ", d, " of input ", self.sizes());
    sizes[d] = size + low + high;
    TORCH_CHECK(sizes[d] >= 1, "input (size ", size, " at dimension ", d,
                ") is too small. Calculated output size: ", sizes[d]);
  }
  return sizes;
}

template <int kDims, Border kKind>
at::Tensor border_pad(const at::Tensor& self, at::IntArrayRef padding) {
  const c10::DimVector sizes = padded_sizes<kDims>(self, padding, kKind);
  Record record(kBorderPad);
  record.tensor(self).attribute(static_cast<int64_t>(kKind)).attribute(padding);
  return padded_result(record, self, sizes);
}

template <int kDims, Border kKind>
at::Tensor border_pad_backward(const at::Tensor& grad, const at::Tensor& self,
                               at::IntArrayRef padding) {
  const c10::DimVector sizes = padded_sizes<kDims>(self, padding, kKind);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(sizes),
              "gradOutput shape unexpected. Expected: ", at::IntArrayRef(sizes),
              ", Got: ", grad.sizes());
  Record record(kBorderPadBackward);
  record.tensor(grad).attribute(static_cast<int64_t>(kKind)).attribute(padding);
  return padded_result(record, self, self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("constant_pad_nd", TORCH_FN(constant_pad_nd));
  m.impl("reflection_pad1d", TORCH_FN((border_pad<1, Border::kReflection>)));
  m.impl("reflection_pad2d", TORCH_FN((border_pad<2, Border::kReflection>)));
  m.impl("reflection_pad3d", TORCH_FN((border_pad<3, Border::kReflection>)));
  m.impl("replication_pad1d", TORCH_FN((border_pad<1, Border::kReplication>)));
  m.impl("replication_pad2d", TORCH_FN((border_pad<2, Border::kReplication>)));
  m.impl("replication_pad3d", TORCH_FN((border_pad<3, Border::kReplication>)));
  m.impl("reflection_pad1d_backward", TORCH_FN((border_pad_backward<1, Border::kReflection>)));
  m.impl("reflection_pad2d_backward", TORCH_FN((border_pad_backward<2, Border::kReflection>)));
  m.impl("reflection_pad3d_backward", TORCH_FN((border_pad_backward<3, Border::kReflection>)));
  m.impl("replication_pad1d_backward", TORCH_FN((border_pad_backward<1, Border::kReplication>)));
  m.impl("replication_pad2d_backward", TORCH_FN((border_pad_backward<2, Border::kReplication>)));
  m.impl("replication_pad3d_backward", TORCH_FN((border_pad_backward<3, Border::kReplication>)));
}

}  // namespace
}  // namespace torch_pjrt::aten
