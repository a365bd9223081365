#include <c10/core/WrapDimMinimal.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "aten/record.h"

// Fourier transforms, one dimension after the other.
namespace torch_pjrt::aten {
namespace {

using graph::FftType;

enum Normalisation : int64_t { kNone, kByRoot, kByCount };  // PyTorch's fft_norm_mode

// Transforms dimension `dim`; `length` is the real side's.
Operand transform(StableHloBuilder& b, Operand x, FftType type, int64_t dim, int64_t length) {
  const int64_t last = x.rank() - 1;
  return b.swap_dimensions(b.fft(b.swap_dimensions(x, dim, last), type, {length}), dim, last);
}

// Inverse transforms divide by their length, forward ones do not.
Operand normalised(StableHloBuilder& b, Operand x, int64_t mode, double count, bool inverse) {
  double factor = inverse ? count : 1;
  if (mode == kByRoot) factor /= std::sqrt(count);
  if (mode == kByCount) factor /= count;
  return factor == 1 ? x : b.multiply(x, b.convert(b.filled_like(b.real(x), factor), x.element()));
}

// attributes: dims, normalisation, forward
void emit_c2c(Emission& e) {
  StableHloBuilder& b = e.builder();
  Operand x = e.operand(0);
  const auto dims = e.attributes.list();
  const int64_t mode = e.attributes.integer();
  const bool forward = e.attributes.boolean();
  double count = 1;
  for (int64_t dim : dims) {
    count *= static_cast<double>(x.dimension(dim));
    x = transform(b, x, forward ? FftType::kForward : FftType::kInverse, dim, x.dimension(dim));
  }
  e.result(normalised(b, x, mode, count, !forward));
}

// attributes: dims, normalisation, onesided
void emit_r2c(Emission& e) {
  StableHloBuilder& b = e.builder();
  Operand x = e.operand(0);
  const auto dims = e.attributes.list();
  const int64_t mode = e.attributes.integer();
  const bool onesided = e.attributes.boolean();
  double count = 1;
  for (int64_t dim : dims) count *= static_cast<double>(x.dimension(dim));
  const int64_t last = dims.back();
  if (onesided) {
    x = transform(b, x, FftType::kRealForward, last, x.dimension(last));
  } else {
    x = b.convert(x, e.result_type().element);
    x = transform(b, x, FftType::kForward, last, x.dimension(last));
  }
  for (int64_t dim : dims.first(dims.size() - 1)) {
    x = transform(b, x, FftType::kForward, dim, x.dimension(dim));
  }
  e.result(normalised(b, x, mode, count, false));
}

// attributes: dims, normalisation; the length of the last one is the result's
void emit_c2r(Emission& e) {
  StableHloBuilder& b = e.builder();
  Operand x = e.operand(0);
  const auto dims = e.attributes.list();
  const int64_t mode = e.attributes.integer();
  const graph::Type& type = e.result_type();
  double count = 1;
  for (int64_t dim : dims) count *= static_cast<double>(type.dimensions[static_cast<size_t>(dim)]);
  for (int64_t dim : dims.first(dims.size() - 1)) {
    x = transform(b, x, FftType::kInverse, dim, x.dimension(dim));
  }
  const int64_t last = dims.back(), length = type.dimensions[static_cast<size_t>(last)];
  const int64_t wanted = length / 2 + 1;
  x = b.slice_dim(x, last, 0, std::min(wanted, x.dimension(last)));
  graph::Dimensions low(static_cast<size_t>(x.rank()), 0), high = low;
  high[static_cast<size_t>(last)] = wanted - x.dimension(last);
  x = transform(b, b.pad(x, b.scalar(x.element(), 0), low, high), FftType::kRealInverse, last,
                length);
  e.result(normalised(b, x, mode, count, true));
}

c10::DimVector wrapped(at::IntArrayRef dims, const at::Tensor& self) {
  c10::DimVector result;
  for (int64_t dim : dims) result.push_back(c10::maybe_wrap_dim(dim, self.dim()));
  return result;
}

// The layout of PyTorch's transforms on the cpu: the transformed dimensions lie inside, in the
// order of `dims`, the others outside, in the order in which the operand has them.
c10::DimVector transformed_strides(at::IntArrayRef strides, at::IntArrayRef sizes,
                                   at::IntArrayRef dims) {
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  const auto batch_end = std::stable_partition(order.begin(), order.end(), [&](int64_t d) {
    return std::find(dims.begin(), dims.end(), d) == dims.end();
  });
  const auto by_stride = [&](int64_t a, int64_t b) { return strides[a] > strides[b]; };
  std::stable_sort(order.begin(), batch_end, by_stride);
  std::copy(dims.begin(), dims.end(), batch_end);
  c10::DimVector result(sizes.size());
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    result[static_cast<size_t>(order[i])] = next;
    next *= std::max<int64_t>(sizes[static_cast<size_t>(order[i])], 1);
  }
  return result;
}

// `dims`, all or all but the last, in the order of their strides.
c10::DimVector by_stride(c10::DimVector dims, at::IntArrayRef strides, bool but_the_last) {
  std::stable_sort(dims.begin(), dims.end() - (but_the_last ? 1 : 0),
                   [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return dims;
}

at::Tensor fft_c2c(const at::Tensor& self, at::IntArrayRef dims, int64_t normalisation,
                   bool forward) {
  static constexpr Operator op{"aten::_fft_c2c", emit_c2c};
  TORCH_CHECK(self.is_complex(), "_fft_c2c: expected a complex tensor, got ", self.scalar_type());
  if (dims.empty()) return self.clone();
  const c10::DimVector wanted = wrapped(dims, self);
  const c10::DimVector sorted = by_stride(wanted, self.strides(), false);
  return Record(op)
      .tensor(self.resolve_conj())
      .attribute(at::IntArrayRef(wanted))
      .attribute(normalisation)
      .attribute(forward)
      .strided(self.scalar_type(), self.sizes(),
               transformed_strides(self.strides(), self.sizes(), sorted));
}

at::Tensor fft_r2c(const at::Tensor& self, at::IntArrayRef dims, int64_t normalisation,
                   bool onesided) {
  static constexpr Operator op{"aten::_fft_r2c", emit_r2c};
  TORCH_CHECK(self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble,
              "Unsupported dtype ", self.scalar_type());
  const c10::DimVector wanted = wrapped(dims, self);
  c10::DimVector sizes(self.sizes());
  int64_t& last = sizes[static_cast<size_t>(wanted.back())];
  if (onesided) last = last / 2 + 1;
  const c10::DimVector sorted = by_stride(wanted, self.strides(), true);
  return Record(op)
      .tensor(self)
      .attribute(at::IntArrayRef(wanted))
      .attribute(normalisation)
      .attribute(onesided)
      .strided(c10::toComplexType(self.scalar_type()), sizes,
               transformed_strides(self.strides(), sizes, sorted));
}

at::Tensor fft_c2r(const at::Tensor& self, at::IntArrayRef dims, int64_t normalisation,
                   int64_t last_size) {
  static constexpr Operator op{"aten::_fft_c2r", emit_c2r};
  TORCH_CHECK(self.is_complex(), "_fft_c2r: expected a complex tensor, got ", self.scalar_type());
  const c10::DimVector wanted = wrapped(dims, self);
  c10::DimVector sizes(self.sizes());
  sizes[static_cast<size_t>(wanted.back())] = last_size;
  c10::DimVector strides(self.strides());
  if (wanted.size() > 1) {
    c10::DimVector complex_dims(wanted.begin(), wanted.end() - 1);
    complex_dims = by_stride(complex_dims, strides, false);
    strides = transformed_strides(strides, self.sizes(), complex_dims);
  }
  return Record(op)
      .tensor(self.resolve_conj())
      .attribute(at::IntArrayRef(wanted))
      .attribute(normalisation)
      .strided(c10::toRealValueType(self.scalar_type()), sizes,
               transformed_strides(strides, sizes, {wanted.back()}));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_fft_c2c", TORCH_FN(fft_c2c));
  m.impl("_fft_r2c", TORCH_FN(fft_r2c));
  m.impl("_fft_c2r", TORCH_FN(fft_c2r));
}

}  // namespace
}  // namespace torch_pjrt::aten
