#include "graph/strided_view.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "graph/emission.h"
#include "graph/held_element.h"

namespace torch_pjrt::graph {
namespace {

Type type_of(ElementType element, std::span<const int64_t> sizes) {
  return Type{element, Dimensions(sizes)};
}

struct Geometry {
  Dimensions sizes;
  Dimensions strides;
  int64_t offset = 0;
};

Geometry read_geometry(AttributeReader& attributes) {
  Geometry geometry;
  geometry.sizes = Dimensions(attributes.list());
  geometry.strides = Dimensions(attributes.list());
  geometry.offset = attributes.integer();
  return geometry;
}

// The view as one reshape and one slice of the storage: the storage of `count` elements is seen as
// an array of `factors`, of which each dimension is cut to (start, step, size). The last factor is
// what one element of the innermost stride leaves; it is cut to one element.
struct Nesting {
  Dimensions order;  // the view's dimensions that move through the storage, outermost first
  Dimensions factors, starts, steps, sizes;
  int64_t padded_count = 0;
};

// Empty when dimensions of the view interleave. `may_pad`: the storage may be seen as longer.
std::optional<Nesting> nest(const Geometry& view, int64_t count, bool may_pad) {
  Nesting nesting;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] != 1 && view.strides[d] != 0)
      nesting.order.push_back(static_cast<int64_t>(d));
  }
  std::stable_sort(nesting.order.begin(), nesting.order.end(), [&](int64_t a, int64_t b) {
    return view.strides[static_cast<size_t>(a)] > view.strides[static_cast<size_t>(b)];
  });
  int64_t inner = 1;  // elements from the first to the last of one step of the current dimension
  for (int64_t d : nesting.order) {
    inner += (view.sizes[static_cast<size_t>(d)] - 1) * view.strides[static_cast<size_t>(d)];
  }
  int64_t length = count;
  int64_t offset = view.offset;
  for (size_t i = 0; i < nesting.order.size(); ++i) {
    const size_t d = static_cast<size_t>(nesting.order[i]);
    const int64_t size = view.sizes[d], stride = view.strides[d];
    inner -= (size - 1) * stride;
    int64_t unit = std::gcd(stride, length);
    if (offset % unit + inner > unit) {
      if (i != 0 || !may_pad || offset % stride + inner > stride) return std::nullopt;
      unit = stride;
      length = (count + stride - 1) / stride * stride;
    }
    nesting.factors.push_back(length / unit);
    nesting.starts.push_back(offset / unit);
    nesting.steps.push_back(stride / unit);
    nesting.sizes.push_back(size);
    if (i == 0) nesting.padded_count = length;
    length = unit;
    offset %= unit;
  }
  if (nesting.order.empty()) nesting.padded_count = count;
  nesting.factors.push_back(length);
  nesting.starts.push_back(offset);
  nesting.steps.push_back(1);
  nesting.sizes.push_back(1);
  return nesting;
}

Dimensions limits_of(const Nesting& nesting) {
  Dimensions limits;
  for (size_t i = 0; i < nesting.starts.size(); ++i) {
    limits.push_back(nesting.starts[i] + (nesting.sizes[i] - 1) * nesting.steps[i] + 1);
  }
  return limits;
}

// Where each element of the view is in the storage, as s64 (or s32) array of one dimension.
Operand flat_indices(StableHloBuilder& b, const Geometry& view) {
  const Type type = type_of(held(ElementType::kS64), view.sizes);
  Operand index = b.filled(type, view.offset);
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1 || view.strides[d] == 0) continue;
    index = b.add(index, b.multiply(b.iota(type, static_cast<int64_t>(d)), view.strides[d]));
  }
  return b.flatten(index);
}

void emit_read(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Operand contents = e.operand(0);
  const Geometry view = read_geometry(e.attributes);
  const Type& type = e.result_type();
  if (type.element_count() == 0) return e.result(b.zeros(type));
  const int64_t count = contents.type().element_count();
  const auto nesting = nest(view, count, /*may_pad=*/true);
  if (!nesting) {
    return e.result(b.reshape(b.take(b.flatten(contents), flat_indices(b, view), 0), view.sizes));
  }
  Operand x = contents;
  if (nesting->padded_count != count) {
    x = b.pad(b.flatten(x), 0, Dimensions{0}, Dimensions{nesting->padded_count - count});
  }
  x = b.reshape(x, nesting->factors);
  x = b.slice(x, nesting->starts, limits_of(*nesting), nesting->steps);
  Dimensions ordered_sizes(nesting->sizes.begin(), nesting->sizes.end() - 1);
  x = b.reshape(x, ordered_sizes);
  // Back from the order in the storage to the order in the view; the rest is broadcast.
  Dimensions mapping = nesting->order;
  Dimensions permutation(mapping.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::sort(permutation.begin(), permutation.end(), [&](int64_t p, int64_t q) {
    return mapping[static_cast<size_t>(p)] < mapping[static_cast<size_t>(q)];
  });
  x = b.transpose(x, permutation);
  std::sort(mapping.begin(), mapping.end());
  if (x.type().element_count() == type.element_count()) return e.result(b.reshape(x, view.sizes));
  e.result(b.broadcast_in_dim(x, view.sizes, mapping));
}

void emit_write(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Operand contents = e.operand(0);
  Operand update = e.operand(1);
  const Geometry view = read_geometry(e.attributes);
  const Type& type = e.result_type();
  if (update.type().element_count() == 0) return e.result(contents);
  // Of dimensions without a stride one element is enough.
  Dimensions starts(view.sizes.size(), 0), limits;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    limits.push_back(view.strides[d] == 0 ? 1 : view.sizes[d]);
  }
  update = b.slice(update, starts, limits);
  const auto nesting = nest(view, type.element_count(), /*may_pad=*/false);
  if (!nesting) {
    Geometry distinct = view;
    distinct.sizes = limits;
    const Operand written = b.scatter_slices(b.flatten(contents), flat_indices(b, distinct),
                                             b.flatten(update), 0, Reducer::kOverwrite);
    return e.result(b.reshape(written, type.dimensions));
  }
  // The view's order to the storage's: leave out dimensions of one element, then transpose.
  Dimensions moving = nesting->order;
  std::sort(moving.begin(), moving.end());
  Dimensions moving_sizes, permutation;
  for (int64_t d : moving) moving_sizes.push_back(view.sizes[static_cast<size_t>(d)]);
  for (int64_t d : nesting->order) {
    permutation.push_back(std::find(moving.begin(), moving.end(), d) - moving.begin());
  }
  update = b.transpose(b.reshape(update, moving_sizes), permutation);
  update = b.reshape(update, nesting->sizes);
  if (update.type().element_count() == type.element_count()) {
    return e.result(b.reshape(update, type.dimensions));
  }
  Operand x = b.reshape(contents, nesting->factors);
  const bool dense = std::all_of(nesting->steps.begin(), nesting->steps.end(),
                                 [](int64_t step) { return step == 1; });
  if (dense) {
    const int64_t farthest = *std::max_element(nesting->starts.begin(), nesting->starts.end());
    const ElementType index = farthest > INT32_MAX ? ElementType::kS64 : ElementType::kS32;
    Operands positions;
    for (int64_t start : nesting->starts) positions.push_back(b.scalar(index, start));
    x = b.dynamic_update_slice(x, update, positions);
  } else {
    Dimensions high, interior;
    const Dimensions ends = limits_of(*nesting);
    for (size_t i = 0; i < ends.size(); ++i) {
      high.push_back(nesting->factors[i] - ends[i]);
      interior.push_back(nesting->steps[i] - 1);
    }
    const Operand ones = b.ones(Type{ElementType::kPred, update.type().dimensions});
    const Operand mask = b.pad(ones, false, nesting->starts, high, interior);
    x = b.select(mask, b.pad(update, 0, nesting->starts, high, interior), x);
  }
  e.result(b.reshape(x, type.dimensions));
}

void emit_reinterpret(Emission& e) {
  StableHloBuilder& b = e.builder();
  const ElementType to = e.result_type().element;
  const int64_t count = e.result_type().element_count();
  Operand x = b.flatten(e.operand(0));
  if (x.element() == ElementType::kPred) x = b.convert(x, ElementType::kU8);
  if (pjrt::is_complex(x.element())) {
    x = b.flatten(b.stack({b.real(x), b.imag(x)}, 1));
  }
  // What the bytes are seen as on the way: a complex target is made of its two real halves.
  ElementType part = to;
  if (to == ElementType::kPred) part = ElementType::kU8;
  if (to == ElementType::kC64) part = ElementType::kF32;
  if (to == ElementType::kC128) part = ElementType::kF64;
  const int from_bits = pjrt::bit_width(x.element()), part_bits = pjrt::bit_width(part);
  // XLA joins two bitcasts, and gives the result the wrong dimensions.
  if (part_bits != from_bits) x = b.optimization_barrier({x})[0];
  if (part_bits > from_bits) {
    const int64_t ratio = part_bits / from_bits;
    const int64_t whole = x.dimension(0) / ratio;
    x = b.reshape(b.slice_dim(x, 0, 0, whole * ratio), {whole, ratio});
  }
  x = b.flatten(b.bitcast_convert(x, part));
  if (pjrt::is_complex(to)) {
    x = b.reshape(b.slice_dim(x, 0, 0, count * 2), {count, 2});
    x = b.complex(b.select_index(x, 1, 0), b.select_index(x, 1, 1));
  } else if (to == ElementType::kPred) {
    x = b.not_equal(x, 0);
  }
  e.result(b.slice_dim(x, 0, 0, count));
}

void emit_resize(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Operand x = b.flatten(e.operand(0));
  const int64_t have = x.dimension(0), want = e.result_type().element_count();
  e.result(b.pad(x, 0, Dimensions{0}, Dimensions{want - have}));
}

constexpr Operator kTranspose{"torch_pjrt::transpose", [](Emission& e) {
                                e.result(e.builder().transpose(e.operand(0), e.attributes.list()));
                              }};
constexpr Operator kReshape{
    "torch_pjrt::reshape",
    [](Emission& e) { e.result(e.builder().reshape(e.operand(0), e.result_type().dimensions)); }};
constexpr Operator kRead{"torch_pjrt::read_view", emit_read};
constexpr Operator kWrite{"torch_pjrt::write_view", emit_write};
constexpr Operator kReinterpret{"torch_pjrt::reinterpret", emit_reinterpret};
constexpr Operator kResize{"torch_pjrt::resize", emit_resize};

Value reshaped(const Value& value, std::span<const int64_t> sizes) {
  if (value.type().dimensions == Dimensions(sizes)) return value;
  return {Node::operation(kReshape, {&value, 1}, {}, type_of(value.type().element, sizes)), 0};
}

}  // namespace

bool is_plain(const StridedView& view) noexcept {
  if (view.offset != 0) return false;
  int64_t stride = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] == 0) return true;
    if (view.sizes[d] == 1) continue;
    if (view.strides[d] != stride) return false;
    stride *= view.sizes[d];
  }
  return true;
}

Value read_view(const Value& contents, const StridedView& view) {
  const Type type = type_of(contents.type().element, view.sizes);
  if (is_plain(view) && type.element_count() == contents.type().element_count()) {
    return reshaped(contents, view.sizes);
  }
  return {Node::operation(kRead, {&contents, 1},
                          Attributes::of(view.sizes, view.strides, view.offset), type),
          0};
}

Value write_view(const Value& contents, const StridedView& view, const Value& update) {
  if (is_plain(view) && update.type().element_count() == contents.type().element_count()) {
    return update;  // the cell takes the shape of its newest value
  }
  const Value operands[] = {contents, update};
  return {Node::operation(kWrite, operands, Attributes::of(view.sizes, view.strides, view.offset),
                          contents.type()),
          0};
}

Value storage_order(const Value& value, std::span<const int64_t> strides) {
  const Type& type = value.type();
  Dimensions order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)];
  });
  if (std::is_sorted(order.begin(), order.end())) return value;
  Type stored{type.element, {}};
  for (int64_t d : order) stored.dimensions.push_back(type.dimensions[static_cast<size_t>(d)]);
  return {Node::operation(kTranspose, {&value, 1}, Attributes::of(std::span<const int64_t>(order)),
                          stored),
          0};
}

Value reinterpret(const Value& contents, ElementType element) {
  if (contents.type().element == element) return contents;
  const int64_t count = contents.type().byte_count() * 8 / pjrt::bit_width(element);
  return {Node::operation(kReinterpret, {&contents, 1}, {}, Type{element, Dimensions{count}}), 0};
}

Value resize(const Value& contents, int64_t count) {
  return {Node::operation(kResize, {&contents, 1}, {},
                          Type{contents.type().element, Dimensions{count}}),
          0};
}

}  // namespace torch_pjrt::graph
