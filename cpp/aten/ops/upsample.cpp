#include <ATen/native/UpSample.h>
#include <torch/library.h>

#include <cmath>

#include "aten/ops/norm.h"
#include "aten/ops/pooling.h"
#include "aten/ops/resample.h"

// Resizing of the last dimensions, one after the other.
namespace torch_pjrt::aten {
namespace {

using Scales = std::array<std::optional<double>, 3>;

// attributes: interpolation, spatial rank, align_corners, a scale for each dimension (0: none)
template <bool forward>
void emit(Emission& e) {
  StableHloBuilder& b = e.builder();
  const auto kind = static_cast<Interpolation>(e.attributes.integer());
  const int64_t rank = e.attributes.integer();
  const bool align_corners = e.attributes.boolean();
  const graph::Type& type = e.result_type();
  const bool nearest = kind <= Interpolation::kNearestExact;
  Operand x = e.operand(0);
  const bool rounds = !nearest && !pjrt::is_floating(x.element());
  if (rounds) {
    x = b.convert(x, graph::ElementType::kF64);  // holds their products exactly
  } else if (!nearest || !forward) {
    x = computed(b, x);
  }
  std::array<double, 3> scales{};
  for (int64_t i = 0; i < rank; ++i) scales[static_cast<size_t>(i)] = e.attributes.real();
  for (int64_t i = rank - 1; i >= 0; --i) {
    const double scale = scales[static_cast<size_t>(i)];
    const int64_t dim = i + 2;
    const int64_t size = type.dimensions[static_cast<size_t>(dim)];
    const int64_t in = forward ? x.dimension(dim) : size;
    const int64_t out = forward ? size : x.dimension(dim);
    WeightedTaps taps =
        resampling(kind, in, out, align_corners, scale > 0 ? std::optional(scale) : std::nullopt,
                   x.element() == graph::ElementType::kF64);
    if (rounds) {
      // Bytes are rounded after each dimension, and from fixed point, as the cpu does.
      if (in == out) continue;
      const double unit = std::ldexp(1.0, quantise(taps));
      x = b.divide(b.add(taps.sum(b, x, dim), unit / 2), unit);
      x = b.clamp(0, b.floor(x), 255);
      continue;
    }
    x = (forward ? taps : taps.transposed()).sum(b, x, dim);
  }
  e.result(b.convert(x, type.element));
}

void check_sizes(at::IntArrayRef input, at::IntArrayRef output, int64_t rank) {
  if (rank == 1) at::native::upsample_1d_common_check(input, output);
  if (rank == 2) at::native::upsample_2d_common_check(input, output);
  if (rank == 3) at::native::upsample_3d_common_check(input, output);
}

at::Tensor resized(const Operator& op, Interpolation kind, int64_t rank, const at::Tensor& operand,
                   at::IntArrayRef sizes, bool align_corners, const Scales& scales) {
  Record record(op);
  record.tensor(operand).attribute(static_cast<int64_t>(kind)).attribute(rank);
  record.attribute(align_corners);
  for (int64_t i = 0; i < rank; ++i) {
    record.attribute(scales[static_cast<size_t>(i)].value_or(0.0));
  }
  return pooled_result(record, operand, sizes);
}

at::Tensor resize(const Operator& op, Interpolation kind, int64_t rank, const at::Tensor& self,
                  at::IntArrayRef output, bool align_corners, const Scales& scales) {
  check_sizes(self.sizes(), output, rank);
  TORCH_CHECK(self.numel() != 0 || self.size(1) != 0, "Non-empty ", rank + 2,
              "D data tensor expected but got a tensor with sizes ", self.sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.scalar_type() == at::kByte,
                              "\"upsample\" not implemented for '",
                              c10::toString(self.scalar_type()), "'");
  c10::DimVector sizes(self.sizes().slice(0, 2));
  sizes.append(output.begin(), output.end());
  return resized(op, kind, rank, self, sizes, align_corners, scales);
}

at::Tensor resize_backward(const Operator& op, Interpolation kind, int64_t rank,
                           const at::Tensor& grad, at::IntArrayRef output, at::IntArrayRef input,
                           bool align_corners, const Scales& scales) {
  check_sizes(input, output, rank);
  c10::DimVector expected(input.slice(0, 2));
  expected.append(output.begin(), output.end());
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(expected),
              "upsample backward: the gradient does not fit; got sizes ", grad.sizes(),
              ", expected ", at::IntArrayRef(expected));
  return resized(op, kind, rank, grad, input, align_corners, scales);
}

using Scale = std::optional<double>;

// One forward and one backward row for each number of dimensions and kind; those of the nearest
// kinds have no align_corners.
template <Interpolation kind>
struct Nearest {
  static constexpr Operator op{"aten::upsample_nearest", emit<true>};
  static constexpr Operator back{"aten::upsample_nearest_backward", emit<false>};
  static at::Tensor one(const at::Tensor& x, at::IntArrayRef out, Scale w) {
    return resize(op, kind, 1, x, out, false, {w});
  }
  static at::Tensor two(const at::Tensor& x, at::IntArrayRef out, Scale h, Scale w) {
    return resize(op, kind, 2, x, out, false, {h, w});
  }
  static at::Tensor three(const at::Tensor& x, at::IntArrayRef out, Scale d, Scale h, Scale w) {
    return resize(op, kind, 3, x, out, false, {d, h, w});
  }
  static at::Tensor one_back(const at::Tensor& g, at::IntArrayRef out, at::IntArrayRef in,
                             Scale w) {
    return resize_backward(back, kind, 1, g, out, in, false, {w});
  }
  static at::Tensor two_back(const at::Tensor& g, at::IntArrayRef out, at::IntArrayRef in, Scale h,
                             Scale w) {
    return resize_backward(back, kind, 2, g, out, in, false, {h, w});
  }
  static at::Tensor three_back(const at::Tensor& g, at::IntArrayRef out, at::IntArrayRef in,
                               Scale d, Scale h, Scale w) {
    return resize_backward(back, kind, 3, g, out, in, false, {d, h, w});
  }
};

template <Interpolation kind>
struct Smooth {
  static constexpr Operator op{"aten::upsample", emit<true>};
  static constexpr Operator back{"aten::upsample_backward", emit<false>};
  static at::Tensor one(const at::Tensor& x, at::IntArrayRef out, bool align, Scale w) {
    return resize(op, kind, 1, x, out, align, {w});
  }
  static at::Tensor two(const at::Tensor& x, at::IntArrayRef out, bool align, Scale h, Scale w) {
    return resize(op, kind, 2, x, out, align, {h, w});
  }
  static at::Tensor three(const at::Tensor& x, at::IntArrayRef out, bool align, Scale d, Scale h,
                          Scale w) {
    return resize(op, kind, 3, x, out, align, {d, h, w});
  }
  static at::Tensor one_back(const at::Tensor& g, at::IntArrayRef out, at::IntArrayRef in,
                             bool align, Scale w) {
    return resize_backward(back, kind, 1, g, out, in, align, {w});
  }
  static at::Tensor two_back(const at::Tensor& g, at::IntArrayRef out, at::IntArrayRef in,
                             bool align, Scale h, Scale w) {
    return resize_backward(back, kind, 2, g, out, in, align, {h, w});
  }
  static at::Tensor three_back(const at::Tensor& g, at::IntArrayRef out, at::IntArrayRef in,
                               bool align, Scale d, Scale h, Scale w) {
    return resize_backward(back, kind, 3, g, out, in, align, {d, h, w});
  }
};

using Plain = Nearest<Interpolation::kNearest>;
using Exact = Nearest<Interpolation::kNearestExact>;
using Linear = Smooth<Interpolation::kLinear>;
using Cubic = Smooth<Interpolation::kCubic>;
using LinearAntialias = Smooth<Interpolation::kLinearAntialias>;
using CubicAntialias = Smooth<Interpolation::kCubicAntialias>;
using LanczosAntialias = Smooth<Interpolation::kLanczosAntialias>;

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("upsample_nearest1d", TORCH_FN(Plain::one));
  m.impl("upsample_nearest2d", TORCH_FN(Plain::two));
  m.impl("upsample_nearest3d", TORCH_FN(Plain::three));
  m.impl("upsample_nearest1d_backward", TORCH_FN(Plain::one_back));
  m.impl("upsample_nearest2d_backward", TORCH_FN(Plain::two_back));
  m.impl("upsample_nearest3d_backward", TORCH_FN(Plain::three_back));
  m.impl("_upsample_nearest_exact1d", TORCH_FN(Exact::one));
  m.impl("_upsample_nearest_exact2d", TORCH_FN(Exact::two));
  m.impl("_upsample_nearest_exact3d", TORCH_FN(Exact::three));
  m.impl("_upsample_nearest_exact1d_backward", TORCH_FN(Exact::one_back));
  m.impl("_upsample_nearest_exact2d_backward", TORCH_FN(Exact::two_back));
  m.impl("_upsample_nearest_exact3d_backward", TORCH_FN(Exact::three_back));
  m.impl("upsample_linear1d", TORCH_FN(Linear::one));
  m.impl("upsample_bilinear2d", TORCH_FN(Linear::two));
  m.impl("upsample_trilinear3d", TORCH_FN(Linear::three));
  m.impl("upsample_linear1d_backward", TORCH_FN(Linear::one_back));
  m.impl("upsample_bilinear2d_backward", TORCH_FN(Linear::two_back));
  m.impl("upsample_trilinear3d_backward", TORCH_FN(Linear::three_back));
  m.impl("upsample_bicubic2d", TORCH_FN(Cubic::two));
  m.impl("upsample_bicubic2d_backward", TORCH_FN(Cubic::two_back));
  m.impl("_upsample_bilinear2d_aa", TORCH_FN(LinearAntialias::two));
  m.impl("_upsample_bilinear2d_aa_backward", TORCH_FN(LinearAntialias::two_back));
  m.impl("_upsample_bicubic2d_aa", TORCH_FN(CubicAntialias::two));
  m.impl("_upsample_bicubic2d_aa_backward", TORCH_FN(CubicAntialias::two_back));
  m.impl("_upsample_lanczos2d_aa", TORCH_FN(LanczosAntialias::two));
  m.impl("_upsample_lanczos2d_aa_backward", TORCH_FN(LanczosAntialias::two_back));
}

}  // namespace
}  // namespace torch_pjrt::aten
