#include <torch/library.h>

#include "aten/ops/indexing.h"
#include "aten/ops/search.h"

// Sums, means and maxima of bags of embedding rows.
namespace torch_pjrt::aten {
namespace {

using graph::ElementType;
using graph::Reducer;

enum Mode : int64_t { kSum, kMean, kMax };

// Half precision adds up in float32.
ElementType working(ElementType element) {
  return pjrt::bit_width(element) < 32 ? ElementType::kF32 : element;
}

Operand by_rows(StableHloBuilder& b, Operand list, const graph::Dimensions& sizes) {
  return b.broadcast_in_dim(list, sizes, {0});
}

// operands: weight, indices, offsets, sample weights if given; attributes: mode, padding index,
// sample weights given; results: bags, each index's bag, size of each bag, chosen rows of kMax
constexpr Operator kForward{
    "aten::_embedding_bag", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const ElementType element = working(type.element);
      const int64_t mode = e.attributes.integer(), padding = e.attributes.integer();
      const bool weighted = e.attributes.boolean();
      const int64_t bags = type.dimensions[0], width = type.dimensions[1];
      const Operand weight = e.operand(0);
      const Operand indices = narrowed(b, e.operand(1), weight.dimension(0));
      const int64_t count = indices.dimension(0);
      if (count == 0 || bags == 0) {
        for (size_t i = 0; i < 4; ++i) e.result(i, b.zeros(e.result_type(i)));
        return;
      }
      const Operand offsets = b.convert(b.slice_dim(e.operand(2), 0, 0, bags), ElementType::kS32);
      const Operand position = b.iota({ElementType::kS32, {count}}, 0);
      const Operand bag = b.subtract(emit_search(b, offsets, position, /*right=*/true), 1);
      // A padding row is sent to a bag that is not there.
      const Operand target =
          padding < 0 ? bag : b.select(b.equal(indices, padding), b.filled_like(bag, bags), bag);
      const Operand ones = b.ones({ElementType::kS32, {count}});
      const Operand sizes =
          b.scatter_slices(b.zeros({ElementType::kS32, {bags}}), target, ones, 0, Reducer::kAdd);
      Operand rows = b.convert(b.take(weight, indices, 0), element);
      if (weighted) {
        rows = b.multiply(rows, by_rows(b, b.convert(e.operand(3), element), {count, width}));
      }
      const graph::Type bag_type{element, {bags, width}};
      Operand result, chosen = b.zeros(e.result_type(3));
      if (mode == kMax) {
        const Operand lowest = b.broadcast_to(b.lowest(element), bag_type.dimensions);
        result = b.scatter_slices(lowest, target, rows, 0, Reducer::kMaximum);
        const Operand best = b.equal(rows, b.take(result, bag, 0));
        const Operand order = by_rows(b, position, {count, width});
        const Operand first = b.scatter_slices(
            b.filled({ElementType::kS32, {bags, width}}, count - 1), target,
            b.select(best, order, b.filled_like(order, count - 1)), 0, Reducer::kMinimum);
        chosen = b.convert(b.take(indices, first, 0), e.result_type(3).element);
        const Operand empty = by_rows(b, b.equal(sizes, 0), bag_type.dimensions);
        result = b.select(empty, b.zeros(bag_type), result);
      } else {
        result = b.scatter_slices(b.zeros(bag_type), target, rows, 0, Reducer::kAdd);
        if (mode == kMean) {
          const Operand divisor = b.convert(b.maximum(sizes, 1), element);
          result = b.divide(result, by_rows(b, divisor, bag_type.dimensions));
        }
      }
      e.result(0, b.convert(result, type.element));
      e.result(1, b.convert(bag, e.result_type(1).element));
      e.result(2, b.convert(sizes, e.result_type(2).element));
      e.result(3, chosen);
    }};

using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

FourTensors embedding_bag(const at::Tensor& weight, const at::Tensor& indices,
                          const at::Tensor& offsets, bool scale_grad_by_freq, int64_t mode,
                          bool sparse, const std::optional<at::Tensor>& per_sample_weights,
                          bool include_last_offset, int64_t padding_idx) {
  (void)scale_grad_by_freq, (void)sparse;
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2,
              "input has to be a 1D or 2D Tensor, but got Tensor of dimension ", indices.dim());
  TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ",
              offsets.dim());
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ",
              weight.dim());
  const bool weighted = per_sample_weights && per_sample_weights->defined();
  TORCH_CHECK(!weighted || mode == kSum,
              "embedding_bag: per_sample_weights was not None. "
              "per_sample_weights is only supported for mode='sum'");
  TORCH_CHECK(!include_last_offset || offsets.size(0) >= 1,
              "include_last_offset: number of offset should be at least 1");
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  const at::Tensor flat = indices.reshape({-1});
  check_index_range(kForward, flat, weight.size(0), false);
  Record record(kForward);
  record.tensor(weight).tensor(flat).tensor(offsets).attribute(mode).attribute(padding_idx);
  record.optional(per_sample_weights);
  const at::ScalarType index = indices.scalar_type();
  const auto results = record.results({{weight.scalar_type(), {bags, weight.size(1)}},
                                       {index, {flat.numel()}},
                                       {index, {bags}},
                                       {index, {mode == kMax ? bags : 0, weight.size(1)}}});
  return {results[0], results[1], results[2], results[3]};
}

// operands: gradient, indices, bags, sizes of bags, chosen rows, sample weights if given;
// attributes: mode, padding index, scale by frequency, sample weights given
constexpr Operator kBackward{
    "aten::_embedding_bag_dense_backward", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const ElementType element = working(type.element);
      const int64_t mode = e.attributes.integer(), padding = e.attributes.integer();
      const bool by_frequency = e.attributes.boolean(), weighted = e.attributes.boolean();
      const int64_t rows = type.dimensions[0], width = type.dimensions[1];
      const Operand grad = b.convert(e.operand(0), element);
      const Operand zeros = b.zeros({element, type.dimensions});
      if (e.operand(1).dimension(0) == 0 || type.element_count() == 0) {
        return e.result(b.zeros(type));
      }
      const Operand sizes = e.operand(3);
      if (mode == kMax) {
        const Operand empty = by_rows(b, b.equal(sizes, 0), grad.dimensions());
        const Operand kept = b.select(empty, b.zeros_like(grad), grad);
        const Operand chosen = narrowed(b, e.operand(4), rows);
        return e.result(
            b.convert(b.scatter_elements(zeros, chosen, kept, 0, Reducer::kAdd), type.element));
      }
      Operand index = narrowed(b, e.operand(1), rows);
      const int64_t count = index.dimension(0);
      const Operand bag = b.convert(e.operand(2), ElementType::kS32);
      Operand updates = b.take(grad, bag, 0);
      if (mode == kMean) {
        const Operand size = b.convert(b.maximum(b.take(sizes, bag, 0), 1), element);
        updates = b.divide(updates, by_rows(b, size, {count, width}));
      }
      if (weighted) {
        updates = b.multiply(updates, by_rows(b, b.convert(e.operand(5), element), {count, width}));
      }
      if (by_frequency) {
        const Operand ones = b.ones({ElementType::kS32, {count}});
        const Operand counts =
            b.scatter_slices(b.zeros({ElementType::kS32, {rows}}), index, ones, 0, Reducer::kAdd);
        const Operand frequency = b.convert(b.take(counts, index, 0), element);
        updates = b.divide(updates, by_rows(b, frequency, {count, width}));
      }
      if (padding >= 0) {
        index = b.select(b.equal(index, padding), b.filled_like(index, rows), index);
      }
      e.result(b.convert(b.scatter_slices(zeros, index, updates, 0, Reducer::kAdd), type.element));
    }};

at::Tensor embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor& indices,
                                        const at::Tensor& offset2bag, const at::Tensor& bag_size,
                                        const at::Tensor& maximum_indices, int64_t num_weights,
                                        bool scale_grad_by_freq, int64_t mode,
                                        const std::optional<at::Tensor>& per_sample_weights,
                                        int64_t padding_idx) {
  Record record(kBackward);
  record.tensor(grad).tensor(indices.reshape({-1})).tensor(offset2bag).tensor(bag_size);
  record.tensor(maximum_indices).attribute(mode).attribute(padding_idx);
  record.attribute(scale_grad_by_freq).optional(per_sample_weights);
  return record.result(grad.scalar_type(), {num_weights, grad.size(1)});
}

at::Tensor embedding_bag_backward(const at::Tensor& grad, const at::Tensor& indices,
                                  const at::Tensor& offsets, const at::Tensor& offset2bag,
                                  const at::Tensor& bag_size, const at::Tensor& maximum_indices,
                                  int64_t num_weights, bool scale_grad_by_freq, int64_t mode,
                                  bool sparse, const std::optional<at::Tensor>& per_sample_weights,
                                  int64_t padding_idx) {
  (void)offsets;
  TORCH_CHECK_NOT_IMPLEMENTED(!sparse,
                              "embedding_bag: sparse gradients are not supported on "
                              "device xla; use sparse=False");
  return embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices,
                                      num_weights, scale_grad_by_freq, mode, per_sample_weights,
                                      padding_idx);
}

// operands: gradient, weight, indices, bags; attributes: padding index
constexpr Operator kSampleWeights{
    "aten::_embedding_bag_per_sample_weights_backward", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      if (type.element_count() == 0) return e.result(b.zeros(type));
      const ElementType element = working(type.element);
      const int64_t padding = e.attributes.integer();
      const Operand index = narrowed(b, e.operand(2), e.operand(1).dimension(0));
      const Operand rows = b.convert(b.take(e.operand(1), index, 0), element);
      const Operand grads =
          b.convert(b.take(e.operand(0), b.convert(e.operand(3), ElementType::kS32), 0), element);
      Operand products = b.reduce(b.multiply(rows, grads), Reducer::kAdd, {1});
      if (padding >= 0) {
        products = b.select(b.equal(index, padding), b.zeros_like(products), products);
      }
      e.result(b.convert(products, type.element));
    }};

at::Tensor embedding_bag_per_sample_weights_backward(
    const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices,
    const at::Tensor& offsets, const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  (void)offsets;
  TORCH_CHECK(mode == kSum,
              "embedding_bag_backward: per_sample_weights only supported for "
              "mode='sum'");
  return Record(kSampleWeights)
      .tensor(grad)
      .tensor(weight)
      .tensor(indices.reshape({-1}))
      .tensor(offset2bag)
      .attribute(padding_idx)
      .result(grad.scalar_type(), {indices.numel()});
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("_embedding_bag", TORCH_FN(embedding_bag));
  m.impl("_embedding_bag_forward_only", TORCH_FN(embedding_bag));
  m.impl("_embedding_bag_backward", TORCH_FN(embedding_bag_backward));
  m.impl("_embedding_bag_dense_backward", TORCH_FN(embedding_bag_dense_backward));
  m.impl("_embedding_bag_per_sample_weights_backward",
         TORCH_FN(embedding_bag_per_sample_weights_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
