#include <ATen/native/GridSamplerUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <vector>

#include "aten/ops/elementwise.h"
#include "aten/ops/norm.h"
#include "aten/ops/rounding.h"

// Sampling an image or a volume at the places of a grid. Everywhere `x` is the last axis, which is
// the grid's first coordinate; P is the number of places of one image.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using at::native::GridSamplerInterpolation;
using at::native::GridSamplerPadding;
using graph::Dimensions;

using graph::Term;

struct Sampling {
  GridSamplerInterpolation interpolation;
  GridSamplerPadding padding;
  bool align_corners;
  ElementType element = ElementType::kF32;

  explicit Sampling(Emission& e)
      : interpolation(static_cast<GridSamplerInterpolation>(e.attributes.integer())),
        padding(static_cast<GridSamplerPadding>(e.attributes.integer())),
        align_corners(e.attributes.boolean()) {
    // XLA CPU takes minutes to compile it for bicubic ones.
    if (interpolation != GridSamplerInterpolation::Bicubic) element = e.operand(0).element();
  }

  // Rounded to the input's type, as the cpu does after every step.
  Operand add(Builder& b, Term x, Term y) const { return rounded_to(b, b.add(x, y), element); }
  Operand subtract(Builder& b, Term x, Term y) const {
    return rounded_to(b, b.subtract(x, y), element);
  }
  Operand multiply(Builder& b, Term x, Term y) const {
    return rounded_to(b, b.multiply(x, y), element);
  }
};

// A place along one axis in elements, and its derivative by the grid's coordinate. [N, P]
struct Place {
  Operand at, slope;
};

// One element along one axis that a sample takes from. [N, P]
struct Tap {
  Operand index;       // s32, within the axis
  Operand inside;      // whether the tap is within it at all
  Operand weight;      // its share
  Operand derivative;  // of the weight by the grid's coordinate
};

Place unnormalised(Builder& b, Operand coordinate, int64_t size, const Sampling& how) {
  const double half = static_cast<double>(how.align_corners ? size - 1 : size) / 2;
  Operand at = how.multiply(b, how.add(b, coordinate, 1), half);
  if (!how.align_corners) at = how.subtract(b, at, 0.5);
  return {at, b.filled_like(at, half)};
}

Place clipped(Builder& b, const Place& place, int64_t size, bool nan_is_last) {
  const double last = static_cast<double>(size - 1);
  const Operand within = b.bit_and(b.greater(place.at, 0), b.less(place.at, last));
  Operand at = b.minimum(b.maximum(place.at, 0), last);
  at = b.select(b.is_nan(place.at), b.filled_like(at, nan_is_last ? last : 0), at);
  return {at, b.select(within, place.slope, b.zeros_like(at))};
}

// Back and forth between the centres of the outermost elements, or their outer edges.
Place reflected(Builder& b, const Place& place, int64_t size, const Sampling& how) {
  const double low = how.align_corners ? 0 : -0.5;
  const double span = static_cast<double>(how.align_corners ? size - 1 : size);
  if (span == 0) return {b.zeros_like(place.at), b.zeros_like(place.at)};
  const Operand signed_distance = how.subtract(b, place.at, low);
  const Operand distance = b.abs(signed_distance);
  const Operand extra = b.remainder(distance, span);
  const Operand turns = b.floor(b.divide(distance, span));
  const Operand odd = b.not_equal(b.remainder(turns, 2), 0);
  const Operand at = how.add(b, b.select(odd, how.subtract(b, span, extra), extra), low);
  const Operand backwards = b.not_equal(odd, b.less(signed_distance, 0));
  return {at, b.select(backwards, b.negate(place.slope), place.slope)};
}

Place padded(Builder& b, Place place, int64_t size, const Sampling& how, bool nan_is_last) {
  if (how.padding == GridSamplerPadding::Reflection) {
    place = reflected(b, place, size, how);
  }
  if (how.padding == GridSamplerPadding::Zeros) return place;
  return clipped(b, place, size, nan_is_last);
}

// Fills in where the tap is; `at` is a whole number.
Tap tap(Builder& b, Operand at, int64_t size, Operand weight, Operand derivative) {
  const double last = static_cast<double>(size - 1);
  const Operand inside = b.bit_and(b.greater_equal(at, 0), b.less_equal(at, last));
  const Operand index = b.select(inside, at, b.zeros_like(at));
  return {b.convert(index, ElementType::kS32), inside, weight, derivative};
}

std::vector<Tap> cubic_taps(Builder& b, Operand coordinate, int64_t size, const Sampling& how) {
  constexpr double a = -0.75;
  const Place place = unnormalised(b, coordinate, size, how);
  const Operand floor = b.floor(place.at), t = how.subtract(b, place.at, floor);
  const auto polynomial = [&](Operand x, std::array<double, 4> highest_first) {
    Operand sum = b.zeros_like(x);
    for (double c : highest_first) sum = how.add(b, how.multiply(b, sum, x), c);
    return sum;
  };
  std::vector<Tap> taps;
  for (int i = 0; i < 4; ++i) {
    // The distance of the tap from the place, and the direction in which it grows with t.
    const Operand distance = i < 2 ? how.add(b, t, 1 - i) : how.subtract(b, i - 1, t);
    const bool outer = i == 0 || i == 3;
    const Operand weight = outer ? polynomial(distance, {a, -5 * a, 8 * a, -4 * a})
                                 : polynomial(distance, {a + 2, -(a + 3), 0, 1});
    Operand derivative = outer ? polynomial(distance, {0, 3 * a, -10 * a, 8 * a})
                               : polynomial(distance, {0, 3 * (a + 2), -2 * (a + 3), 0});
    if (i >= 2) derivative = b.negate(derivative);
    const Place whole{b.add(floor, i - 1), place.slope};
    const Operand at = padded(b, whole, size, how, false).at;
    taps.push_back(tap(b, at, size, weight, b.multiply(derivative, place.slope)));
  }
  return taps;
}

std::vector<Tap> taps_along(Builder& b, Operand coordinate, int64_t size, int64_t rank,
                            const Sampling& how) {
  if (how.interpolation == GridSamplerInterpolation::Bicubic) {
    return cubic_taps(b, coordinate, size, how);
  }
  const Place place = padded(b, unnormalised(b, coordinate, size, how), size, how,
                             /*nan_is_last=*/rank == 3);
  if (how.interpolation == GridSamplerInterpolation::Nearest) {
    const Operand zero = b.zeros_like(place.at);
    return {tap(b, b.round_nearest_even(place.at), size, b.ones_like(place.at), zero)};
  }
  const Operand floor = b.floor(place.at), next = b.add(floor, 1);
  return {tap(b, floor, size, how.subtract(b, next, place.at), b.negate(place.slope)),
          tap(b, next, size, how.subtract(b, place.at, floor), place.slope)};
}

// An element that a sample takes from.
struct Corner {
  Operand row;                       // of all images' elements, flat. [N * P]
  Operand inside;                    // [N, P]
  Operand weight;                    // [N, P]
  std::vector<Operand> derivatives;  // of the weight by each axis's coordinate, first axis first
};

// input: [N, C, axes...]; grid: [N, places..., axes]
std::vector<Corner> corners(Builder& b, const graph::Type& input, Operand grid,
                            const Sampling& how) {
  const Dimensions& sizes = input.dimensions;
  const int64_t rank = static_cast<int64_t>(sizes.size()) - 2;
  const Operand places = b.reshape(grid, {sizes[0], -1, rank});
  std::vector<std::vector<Tap>> axes;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const Operand coordinate = b.select_index(places, 2, rank - 1 - axis);
    axes.push_back(taps_along(b, coordinate, sizes[static_cast<size_t>(axis) + 2], rank, how));
  }
  std::vector<Corner> result;
  const Operand image = b.iota({ElementType::kS32, {sizes[0], places.dimension(1)}}, 0);
  size_t count = 1;
  for (const auto& taps : axes) count *= taps.size();
  for (size_t which = 0; which < count; ++which) {
    std::vector<const Tap*> chosen;
    for (size_t rest = which, axis = 0; axis < axes.size(); ++axis) {
      chosen.push_back(&axes[axis][rest % axes[axis].size()]);
      rest /= axes[axis].size();
    }
    Operand row = image, inside = chosen[0]->inside, weight = chosen[0]->weight;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      row = b.add(b.multiply(row, sizes[axis + 2]), chosen[axis]->index);
      if (axis == 0) continue;
      inside = b.bit_and(inside, chosen[axis]->inside);
      weight = how.multiply(b, weight, chosen[axis]->weight);
    }
    // In 2-D the cpu multiplies 0 from outside by the weight: a place that is no number gives NaN.
    if (rank > 2) weight = b.select(inside, weight, 0);
    Corner corner{b.flatten(row), inside, weight, {}};
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      Operand derivative = chosen[axis]->derivative;
      for (size_t other = 0; other < axes.size(); ++other) {
        if (other != axis) derivative = b.multiply(derivative, chosen[other]->weight);
      }
      corner.derivatives.push_back(b.select(inside, derivative, b.zeros_like(derivative)));
    }
    result.push_back(std::move(corner));
  }
  return result;
}

// [N, C, rest...] as [N * rest, C].
Operand channels_last(Builder& b, Operand x) {
  const Operand flat = b.reshape(x, {x.dimension(0), x.dimension(1), -1});
  return b.reshape(b.swap_dimensions(flat, 1, 2), {-1, x.dimension(1)});
}

// [N * rest, C] as [N, C, rest...].
Operand channels_first(Builder& b, Operand x, const Dimensions& dimensions) {
  const Operand split = b.reshape(x, {dimensions[0], -1, dimensions[1]});
  return b.reshape(b.swap_dimensions(split, 1, 2), dimensions);
}

Operand spread(Builder& b, Operand weight, Operand rows) {
  return b.broadcast_in_dim(b.flatten(weight), rows.dimensions(), {0});
}

// rows of a corner, 0 where it is outside.
Operand only_inside(Builder& b, const Corner& corner, Operand rows) {
  return b.select(spread(b, corner.inside, rows), rows, 0);
}

Operand wide(Emission& e, size_t i) {
  return e.builder().convert(e.operand(i), compute_type(e.operand(i).element()));
}

// operands: input, grid; attributes: interpolation, padding, align_corners
constexpr Operator kSample{
    "aten::grid_sampler", [](Emission& e) {
      Builder& b = e.builder();
      const Operand input = wide(e, 0);
      const Sampling how(e);
      const Operand rows = channels_last(b, input);
      Operand sum;
      for (const Corner& corner : corners(b, input.type(), wide(e, 1), how)) {
        const Operand taken = only_inside(b, corner, b.take(rows, corner.row, 0));
        const Operand part = how.multiply(b, taken, spread(b, corner.weight, taken));
        sum = sum ? how.add(b, sum, part) : part;
      }
      finish(e, channels_first(b, sum, e.result_type().dimensions));
    }};

// operands: gradient, input, grid; the same attributes; results: of the input, of the grid
constexpr Operator kSampleBackward{
    "aten::grid_sampler_backward", [](Emission& e) {
      Builder& b = e.builder();
      const Operand input = wide(e, 1);
      const Sampling how(e);
      const Operand gradient = channels_last(b, wide(e, 0)), rows = channels_last(b, input);
      Operands indices, updates;
      std::vector<Operand> slopes(static_cast<size_t>(input.rank()) - 2);
      for (const Corner& corner : corners(b, input.type(), wide(e, 2), how)) {
        indices.push_back(corner.row);
        const Operand share = b.multiply(gradient, spread(b, corner.weight, gradient));
        updates.push_back(only_inside(b, corner, share));
        if (how.interpolation == GridSamplerInterpolation::Nearest) continue;
        const Operand taken = only_inside(b, corner, b.take(rows, corner.row, 0));
        const Operand products = b.multiply(taken, gradient);
        Operand inner = b.reduce(products, graph::Reducer::kAdd, {1});
        if (slopes.size() > 2) inner = b.select(b.flatten(corner.inside), inner, 0);
        for (size_t axis = 0; axis < slopes.size(); ++axis) {
          const Operand part = b.multiply(inner, b.flatten(corner.derivatives[axis]));
          slopes[axis] = slopes[axis] ? b.add(slopes[axis], part) : part;
        }
      }
      const Operand scattered =
          b.scatter_slices(b.zeros_like(rows), b.concatenate(indices, 0), b.concatenate(updates, 0),
                           0, graph::Reducer::kAdd);
      const Operand of_input = channels_first(b, scattered, input.dimensions());
      e.result(0, b.convert(of_input, e.result_type(0).element));
      const graph::Type& grid = e.result_type(1);
      if (!slopes[0]) return e.result(1, b.zeros(grid));
      const Operands by_coordinate(slopes.rbegin(), slopes.rend());
      e.result(1, b.convert(b.reshape(b.stack(by_coordinate, 1), grid.dimensions), grid.element));
    }};

at::Tensor sample(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation,
                  int64_t padding, bool align_corners) {
  check_floating("grid_sampler", input);
  c10::DimVector sizes(input.sizes().slice(0, 2));
  for (int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  if (c10::multiply_integers(sizes) == 0) return at::empty(sizes, input.options());
  Record record(kSample);
  record.tensor(input).tensor(grid).attribute(interpolation).attribute(padding);
  return record.attribute(align_corners).result(input.scalar_type(), sizes);
}

using Pair = std::tuple<at::Tensor, at::Tensor>;

Pair sample_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& grid,
                     int64_t interpolation, int64_t padding, bool align_corners,
                     std::array<bool, 2> wanted) {
  if (grad.numel() == 0) {
    return {wanted[0] ? at::zeros(input.sizes(), input.options()) : at::Tensor(),
            wanted[1] ? at::zeros(grid.sizes(), grid.options()) : at::Tensor()};
  }
  Record record(kSampleBackward);
  record.tensor(grad).tensor(input).tensor(grid).attribute(interpolation).attribute(padding);
  record.attribute(align_corners);
  auto both =
      record.results({{input.scalar_type(), input.sizes()}, {grid.scalar_type(), grid.sizes()}});
  return {wanted[0] ? both[0] : at::Tensor(), both[1]};
}

at::Tensor sample_2d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation,
                     int64_t padding, bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  return sample(input, grid, interpolation, padding, align_corners);
}

at::Tensor sample_3d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation,
                     int64_t padding, bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_3d(input, grid, interpolation);
  return sample(input, grid, interpolation, padding, align_corners);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("grid_sampler_2d", TORCH_FN(sample_2d));
  m.impl("grid_sampler_3d", TORCH_FN(sample_3d));
  m.impl("grid_sampler_2d_backward", TORCH_FN(sample_backward));
  m.impl("grid_sampler_3d_backward", TORCH_FN(sample_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
