#include "aten/ops/convolution.h"

#include <algorithm>

#include "aten/ops/matmul.h"

// Convolutions as StableHLO. Layouts stay PyTorch's: on XLA CPU a transpose to channels last inside
// the program gained nothing that lasted.
namespace torch_pjrt::aten {
namespace {

using graph::Dimensions;
using graph::Padding;
using graph::Window;

constexpr int64_t kPatchesLimit = int64_t{1} << 28;  // bytes

int64_t spatial(Operand x, size_t i) { return x.dimension(static_cast<int64_t>(i) + 2); }

bool is_plain(const Window& window, Operand kernel) {
  const auto is_one = [](int64_t v) { return v == 1; };
  return std::all_of(kernel.dimensions().begin() + 2, kernel.dimensions().end(), is_one) &&
         std::all_of(window.strides.begin(), window.strides.end(), is_one) &&
         std::all_of(window.base_dilations.begin(), window.base_dilations.end(), is_one) &&
         std::all_of(window.padding.begin(), window.padding.end(),
                     [](const Padding& p) { return p.low == 0 && p.high == 0; });
}

// Multiplications from which on products take less time than XLA CPU's convolution: measured, half
// of it where there are many, and half as much again where there are few.
constexpr int64_t kManyProducts = int64_t{1} << 20;

// A kernel of one place is a matrix product a sample.
Operand multiply_samples(StableHloBuilder& b, Operand input, Operand kernel, int64_t groups) {
  const int64_t n = input.dimension(0), rows = kernel.dimension(0) / groups;
  const int64_t columns = input.dimension(1) / groups;
  int64_t places = 1;
  Dimensions sizes = input.dimensions();
  for (size_t i = 2; i < sizes.size(); ++i) places *= sizes[i];
  sizes[1] = kernel.dimension(0);
  const Operand lhs = b.broadcast_in_dim(b.reshape(kernel, {groups, rows, columns}),
                                         Dimensions{n, groups, rows, columns}, {1, 2, 3});
  const Operand rhs = b.reshape(input, {n, groups, columns, places});
  return b.reshape(wide_dot(b, lhs, rhs, {{0, 1}, {0, 1}, {3}, {2}}), sizes);
}

constexpr int64_t kMostTaps = 64;

int64_t taps_of(Operand kernel) {
  int64_t count = 1;
  for (size_t i = 2; i < kernel.dimensions().size(); ++i) count *= kernel.dimensions()[i];
  return count;
}

// One kernel for every channel: a sum of shifted products, which fuses. XLA CPU's grouped
// convolution of these is far slower.
Operand correlate_channels(StableHloBuilder& b, Operand input, Operand kernel,
                           const Window& window) {
  const size_t rank = kernel.dimensions().size() - 2;
  const auto at = [](const Dimensions& list, size_t i) { return list.empty() ? 1 : list[i]; };
  Dimensions low{0, 0}, high{0, 0}, interior{0, 0};
  for (size_t i = 0; i < rank; ++i) {
    low.push_back(window.padding[i].low);
    high.push_back(window.padding[i].high);
    interior.push_back(at(window.base_dilations, i) - 1);
  }
  const Operand padded = b.pad(input, 0, low, high, interior);
  const Operand weights = b.reshape(kernel, {kernel.dimension(0), taps_of(kernel)});
  Operand sum;
  for (int64_t tap = 0; tap < taps_of(kernel); ++tap) {
    Dimensions starts{0, 0}, limits{padded.dimension(0), padded.dimension(1)}, strides{1, 1};
    Dimensions place(rank, 0);
    int64_t rest = tap;
    for (size_t i = rank; i-- > 0; rest /= spatial(kernel, i)) place[i] = rest % spatial(kernel, i);
    for (size_t i = 0; i < rank; ++i) {
      const int64_t reach = at(window.window_dilations, i) * (spatial(kernel, i) - 1) + 1;
      const int64_t stride = at(window.strides, i);
      const int64_t places = (spatial(padded, i) - reach) / stride + 1;
      starts.push_back(place[i] * at(window.window_dilations, i));
      limits.push_back(starts.back() + (places - 1) * stride + 1);
      strides.push_back(stride);
    }
    const Operand part = b.slice(padded, starts, limits, strides);
    const Operand weight = b.squeeze(b.slice_dim(weights, 1, tap, tap + 1), 1);
    const Operand product = b.multiply(part, b.broadcast_in_dim(weight, part.dimensions(), {1}));
    sum = sum ? b.add(sum, product) : product;
  }
  return sum;
}

Operand correlate(StableHloBuilder& b, Operand input, Operand kernel, const Window& window,
                  int64_t groups);

// In three dimensions: one in two for each plane of the result, whose features are those of all
// planes under the kernel. XLA CPU's own takes ten times as long.
Operand correlate_planes(StableHloBuilder& b, Operand input, Operand kernel, const Window& window,
                         int64_t groups) {
  const auto first = [](const Dimensions& list) { return list.empty() ? 1 : list[0]; };
  const auto rest = [](const auto& list) {
    return list.empty() ? list : std::decay_t<decltype(list)>(list.begin() + 1, list.end());
  };
  const Padding& padding = window.padding[0];
  const Operand padded = b.pad(input, 0, {0, 0, padding.low, 0, 0}, {0, 0, padding.high, 0, 0},
                               {0, 0, first(window.base_dilations) - 1, 0, 0});
  const int64_t stride = first(window.strides), dilation = first(window.window_dilations);
  const int64_t depth = spatial(kernel, 0);
  const int64_t planes = (spatial(padded, 0) - dilation * (depth - 1) - 1) / stride + 1;
  graph::Operands parts;
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t start = k * dilation;
    parts.push_back(b.slice_dim(padded, 2, start, start + (planes - 1) * stride + 1, stride));
  }
  const Operand stacked = b.transpose(b.stack(parts, 2), {0, 3, 1, 2, 4, 5});
  const Dimensions& sizes = stacked.dimensions();
  const Dimensions& k = kernel.dimensions();
  Window plane;
  plane.strides = rest(window.strides);
  plane.padding = rest(window.padding);
  plane.base_dilations = rest(window.base_dilations);
  plane.window_dilations = rest(window.window_dilations);
  const Operand result =
      correlate(b, b.reshape(stacked, {sizes[0] * planes, sizes[2] * depth, sizes[4], sizes[5]}),
                b.reshape(kernel, {k[0], k[1] * depth, k[3], k[4]}), plane, groups);
  const Operand split =
      b.reshape(result, {sizes[0], planes, k[0], spatial(result, 0), spatial(result, 1)});
  return b.swap_dimensions(split, 1, 2);
}

// A correlation with [out, in / groups, spatial...] kernels.
Operand correlate(StableHloBuilder& b, Operand input, Operand kernel, const Window& window,
                  int64_t groups) {
  const int64_t products = input.type().element_count() * (kernel.dimension(0) / groups);
  if (is_plain(window, kernel) && products >= kManyProducts) {
    return multiply_samples(b, input, kernel, groups);
  }
  const bool one_each = groups > 1 && groups == input.dimension(1) && groups == kernel.dimension(0);
  if (one_each && taps_of(kernel) <= kMostTaps && input.type().element_count() > 0) {
    return correlate_channels(b, input, kernel, window);
  }
  const auto rank = input.rank() - 2;
  const int64_t bytes = input.type().byte_count() * (rank == 3 ? spatial(kernel, 0) : 1);
  if (rank == 3 && bytes > 0 && bytes <= kPatchesLimit) {
    return correlate_planes(b, input, kernel, window, groups);
  }
  return b.convolution(input, kernel, window, graph::convolution_dimensions(rank), groups);
}

// [groups * a, b, k...] -> [groups * b, a, k...]
Operand exchange_features(StableHloBuilder& b, Operand kernel, int64_t groups) {
  const Dimensions& sizes = kernel.dimensions();
  if (groups == 1) return b.swap_dimensions(kernel, 0, 1);
  Dimensions split{groups, sizes[0] / groups}, merged{groups * sizes[1], sizes[0] / groups};
  for (size_t i = 1; i < sizes.size(); ++i) split.push_back(sizes[i]);
  for (size_t i = 2; i < sizes.size(); ++i) merged.push_back(sizes[i]);
  return b.reshape(b.swap_dimensions(b.reshape(kernel, split), 1, 2), merged);
}

// What spreads `grad` over a kernel: the transpose of a correlation, of the given result sizes.
Operand spread(StableHloBuilder& b, const Convolution& c, Operand grad, Operand kernel,
               const Dimensions& sizes) {
  Dimensions dims;
  Window window;
  for (size_t i = 0; i + 2 < sizes.size(); ++i) {
    dims.push_back(static_cast<int64_t>(i) + 2);
    const int64_t reach = c.dilation[i] * (spatial(kernel, i) - 1);
    const int64_t dilated = (spatial(grad, i) - 1) * c.stride[i] + 1;
    const int64_t low = reach - c.padding[i];
    window.padding.push_back({low, sizes[i + 2] - dilated - low + reach});
    window.base_dilations.push_back(c.stride[i]);
    window.window_dilations.push_back(c.dilation[i]);
  }
  return correlate(b, grad, b.reverse(exchange_features(b, kernel, c.groups), dims), window,
                   c.groups);
}

Operand gather_correlation(StableHloBuilder& b, const Convolution& c, Operand input,
                           Operand kernel) {
  Window window;
  window.strides = c.stride;
  window.window_dilations = c.dilation;
  for (int64_t p : c.padding) window.padding.push_back({p, p});
  return correlate(b, input, kernel, window, c.groups);
}

// For every place of the kernel: what it multiplies, [n, features, outputs...].
graph::Operands patches(StableHloBuilder& b, const Convolution& c, Operand input,
                        const Dimensions& kernel, const Dimensions& outputs) {
  const size_t rank = kernel.size();
  Dimensions low{0, 0}, high{0, 0};
  for (size_t i = 0; i < rank; ++i) {
    const int64_t end = (outputs[i] - 1) * c.stride[i] + c.dilation[i] * (kernel[i] - 1) + 1;
    low.push_back(c.padding[i]);
    high.push_back(end - c.padding[i] - spatial(input, i));
  }
  const Operand padded = b.pad(input, 0, low, high);
  graph::Operands parts;
  Dimensions place(rank, 0);
  int64_t count = 1;
  for (int64_t k : kernel) count *= k;
  for (int64_t n = 0; n < count; ++n) {
    Dimensions starts{0, 0}, limits{input.dimension(0), input.dimension(1)}, strides{1, 1};
    int64_t rest = n;
    for (size_t i = rank; i-- > 0; rest /= kernel[i]) place[i] = rest % kernel[i];
    for (size_t i = 0; i < rank; ++i) {
      const int64_t start = place[i] * c.dilation[i];
      starts.push_back(start);
      limits.push_back(start + (outputs[i] - 1) * c.stride[i] + 1);
      strides.push_back(c.stride[i]);
    }
    parts.push_back(b.slice(padded, starts, limits, strides));
  }
  return parts;
}

// sum over n and places p of small[n, a, p] * patch_k(large)[n, b, p] -> [a, b / groups, k...], as
// matrix products: on XLA CPU several times as fast as the convolution that computes it.
// Measured: one product a sample is best when it is long, one a place of the kernel otherwise.
Operand correlate_products(StableHloBuilder& b, const Convolution& c, Operand small, Operand large,
                           const Dimensions& weight_sizes) {
  constexpr int64_t kLong = 256;
  Dimensions kernel, outputs;
  int64_t places = 1, taps = 1;
  for (size_t i = 2; i < weight_sizes.size(); ++i) {
    kernel.push_back(weight_sizes[i]);
    outputs.push_back(spatial(small, i - 2));
    taps *= kernel.back();
    places *= outputs.back();
  }
  const int64_t n = small.dimension(0), g = c.groups;
  const int64_t rows = small.dimension(1) / g, columns = large.dimension(1) / g;
  const Operand lhs = b.reshape(small, {n, g, rows, places});
  graph::Operands parts = patches(b, c, large, kernel, outputs);
  if (rows == 1 && columns == 1) {  // a kernel for every channel: sums of products, which fuse
    for (Operand& part : parts) {
      const Operand product = b.multiply(lhs, b.reshape(part, {n, g, 1, places}));
      part = b.reduce(b.reduce(product, graph::Reducer::kAdd, {2, 3}), graph::Reducer::kAdd, {0});
    }
    return b.reshape(b.stack(parts, 1), weight_sizes);
  }
  if (places >= kLong || taps == 1) {
    const Operand rhs = b.reshape(b.stack(parts, 2), {n, g, columns * taps, places});
    const Operand product = wide_dot(b, lhs, rhs, {{0, 1}, {0, 1}, {3}, {3}});
    return b.reshape(b.reduce(product, graph::Reducer::kAdd, {0}), weight_sizes);
  }
  for (Operand& part : parts) {
    part = b.reshape(part, {n, g, columns, places});
    part = wide_dot(b, lhs, part, {{1}, {1}, {0, 3}, {0, 3}});
  }
  return b.reshape(b.stack(parts, 3), weight_sizes);
}

// The same as a convolution whose kernel is `small`; for patches that would be too large.
Operand correlate_batch(StableHloBuilder& b, const Convolution& c, Operand small, Operand large,
                        const Dimensions& weight_sizes) {
  Window window;
  for (size_t i = 0; i + 2 < weight_sizes.size(); ++i) {
    const int64_t end =
        (spatial(small, i) - 1) * c.stride[i] + c.dilation[i] * (weight_sizes[i + 2] - 1) + 1;
    window.padding.push_back({c.padding[i], end - c.padding[i] - spatial(large, i)});
    window.strides.push_back(c.dilation[i]);
    window.window_dilations.push_back(c.stride[i]);
  }
  graph::Operands parts;
  const int64_t rows = small.dimension(1) / c.groups, columns = large.dimension(1) / c.groups;
  for (int64_t g = 0; g < c.groups; ++g) {
    const Operand input = b.slice_dim(large, 1, g * columns, (g + 1) * columns);
    const Operand kernel = b.slice_dim(small, 1, g * rows, (g + 1) * rows);
    const Operand part =
        correlate(b, b.swap_dimensions(input, 0, 1), b.swap_dimensions(kernel, 0, 1), window, 1);
    parts.push_back(b.swap_dimensions(part, 0, 1));
  }
  return parts.size() == 1 ? parts[0] : b.concatenate(parts, 0);
}

// Half precisions are computed in f32.
Operand widened(StableHloBuilder& b, Operand x) {
  return b.convert(x, accumulation_type(x.element()));
}

Operand narrowed(StableHloBuilder& b, Operand x, Operand like) {
  return b.convert(x, like.element());
}

}  // namespace

Operand Convolution::forward(StableHloBuilder& b, Operand input, Operand weight) const {
  const Operand x = widened(b, input), w = widened(b, weight);
  if (!transposed) return gather_correlation(b, *this, x, w);
  Dimensions sizes{x.dimension(0), w.dimension(1) * groups};
  for (size_t i = 0; i < stride.size(); ++i) {
    sizes.push_back((spatial(x, i) - 1) * stride[i] - 2 * padding[i] +
                    dilation[i] * (spatial(w, i) - 1) + output_padding[i] + 1);
  }
  return spread(b, *this, x, w, sizes);
}

Operand Convolution::input_gradient(StableHloBuilder& b, Operand grad, Operand weight,
                                    const Dimensions& input_sizes) const {
  const Operand g = widened(b, grad), w = widened(b, weight);
  if (!transposed) return narrowed(b, spread(b, *this, g, w, input_sizes), grad);
  Operand result = gather_correlation(b, *this, g, w);
  for (size_t i = 0; i + 2 < input_sizes.size(); ++i) {  // output padding may leave one too many
    result = b.slice_dim(result, static_cast<int64_t>(i) + 2, 0, input_sizes[i + 2]);
  }
  return narrowed(b, result, grad);
}

Operand Convolution::weight_gradient(StableHloBuilder& b, Operand grad, Operand input,
                                     const Dimensions& weight_sizes) const {
  const Operand small = widened(b, transposed ? input : grad);
  const Operand large = widened(b, transposed ? grad : input);
  int64_t bytes =
      small.type().byte_count() / std::max<int64_t>(small.dimension(1), 1) * large.dimension(1);
  for (size_t i = 2; i < weight_sizes.size(); ++i) bytes *= weight_sizes[i];
  const Operand result = bytes <= kPatchesLimit
                             ? correlate_products(b, *this, small, large, weight_sizes)
                             : correlate_batch(b, *this, small, large, weight_sizes);
  return narrowed(b, result, grad);
}

}  // namespace torch_pjrt::aten
