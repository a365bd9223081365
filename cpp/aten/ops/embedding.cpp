#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aten/ops/indexing.h"

// Embedding tables.
namespace torch_pjrt::aten {
namespace {

constexpr Operator kEmbedding{
    "aten::embedding", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      if (e.result_type().element_count() == 0) return e.result(b.zeros(e.result_type()));
      const Operand weight = e.operand(0);
      e.result(b.take(weight, narrowed(b, e.operand(1), weight.dimension(0)), 0));
    }};

void check_indices(const at::Tensor& indices) {
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "Expected tensor for argument #1 'indices' to have one of the following scalar "
              "types: Long, Int; but got ",
              indices.toString(), " instead (while checking arguments for embedding)");
}

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, int64_t padding_idx,
                     bool scale_grad_by_freq, bool sparse) {
  (void)padding_idx, (void)scale_grad_by_freq, (void)sparse;
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  check_indices(indices);
  c10::DimVector sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  TORCH_CHECK_INDEX(weight.size(0) != 0 || indices.numel() == 0, "index out of range in self");
  check_index_range(kEmbedding, indices, weight.size(0), false);
  return Record(kEmbedding).tensor(weight).tensor(indices).result(weight.scalar_type(), sizes);
}

// attributes: padding_idx (or -1), scale_grad_by_freq. bfloat16 and float16 add in float32.
constexpr Operator kEmbeddingBackward{
    "aten::embedding_dense_backward", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const int64_t padding = e.attributes.integer();
      const bool by_frequency = e.attributes.boolean();
      const bool narrow = pjrt::bit_width(type.element) < 32;
      const graph::ElementType element = narrow ? graph::ElementType::kF32 : type.element;
      const int64_t rows = type.dimensions[0], width = type.dimensions[1];
      Operand index = narrowed(b, b.flatten(e.operand(1)), rows);
      const int64_t count = index.dimension(0);
      Operand gradient = b.convert(b.reshape(e.operand(0), {count, width}), element);
      // Out of range is skipped, and so is the padding row.
      if (padding >= 0)
        index = b.select(b.equal(index, padding), b.filled_like(index, rows), index);
      if (by_frequency) {
        const Operand ones = b.ones({graph::ElementType::kS32, {count}});
        const Operand counts = b.scatter_slices(b.zeros({graph::ElementType::kS32, {rows}}), index,
                                                ones, 0, graph::Reducer::kAdd);
        const Operand frequency = b.maximum(b.take(counts, index, 0), 1);
        gradient = b.divide(gradient,
                            b.broadcast_in_dim(b.convert(frequency, element), {count, width}, {0}));
      }
      const Operand sum = b.scatter_slices(b.zeros({element, type.dimensions}), index, gradient, 0,
                                           graph::Reducer::kAdd);
      e.result(b.convert(sum, type.element));
    }};

at::Tensor embedding_dense_backward(const at::Tensor& grad, const at::Tensor& indices,
                                    int64_t num_weights, int64_t padding_idx,
                                    bool scale_grad_by_freq) {
  check_indices(indices);
  const int64_t width = grad.size(-1);
  if (indices.numel() == 0 || width == 0) return at::zeros({num_weights, width}, grad.options());
  return Record(kEmbeddingBackward)
      .tensor(grad)
      .tensor(indices)
      .attribute(padding_idx)
      .attribute(scale_grad_by_freq)
      .result(grad.scalar_type(), {num_weights, width});
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("embedding", TORCH_FN(embedding));
  m.impl("embedding_dense_backward", TORCH_FN(embedding_dense_backward));
}

}  // namespace
}  // namespace torch_pjrt::aten
