#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aten/ops/reduce.h"
#include "graph/held_element.h"

// Extremes and where they are.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

// attributes: dim, keepdim; results: value, index
template <bool kMax>
void emit_pair(Emission& e) {
  Builder& b = e.builder();
  const int64_t dim = e.attributes.integer();
  const bool keepdim = e.attributes.boolean();
  const Operand x = e.operand(0);
  const auto [value, index] =
      kMax ? b.argmax(x, dim, graph::held(graph::ElementType::kS64), keepdim)
           : b.argmin(x, dim, graph::held(graph::ElementType::kS64), keepdim);
  e.result(0, value);
  e.result(1, index);
}

// attributes: dim, keepdim, whether all dimensions are seen as one
template <bool kMax>
void emit_index(Emission& e) {
  Builder& b = e.builder();
  const int64_t dim = e.attributes.integer();
  const bool keepdim = e.attributes.boolean();
  const Operand x = e.attributes.boolean() ? b.flatten(e.operand(0)) : e.operand(0);
  const Operand index = (kMax ? b.argmax(x, dim, graph::held(graph::ElementType::kS64), keepdim)
                              : b.argmin(x, dim, graph::held(graph::ElementType::kS64), keepdim))
                            .second;
  e.result(b.reshape(index, e.result_type().dimensions));
}

constexpr Operator kMaxDim{"aten::max", emit_pair<true>};
constexpr Operator kMinDim{"aten::min", emit_pair<false>};
constexpr Operator kArgmax{"aten::argmax", emit_index<true>};
constexpr Operator kArgmin{"aten::argmin", emit_index<false>};

template <const Operator& op>
std::tuple<at::Tensor, at::Tensor> extreme_along(const at::Tensor& self, int64_t dim,
                                                 bool keepdim) {
  TORCH_CHECK(!self.is_complex(), op.name.substr(6), "(): does not support complex input");
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return {self.clone(), at::zeros({}, self.options().dtype(at::kLong))};
  TORCH_CHECK_INDEX(self.numel() != 0 || self.size(wrapped) != 0, op.name.substr(6),
                    "(): Expected reduction dim ", wrapped, " to have non-zero size.");
  const c10::DimVector sizes = reduced_sizes(self, {wrapped}, keepdim);
  auto both = Record(op).tensor(self).attribute(wrapped).attribute(keepdim).results(
      {{self.scalar_type(), sizes}, {at::kLong, sizes}});
  return {both[0], both[1]};
}

template <const Operator& op>
at::Tensor index_of_extreme(const at::Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  TORCH_CHECK(self.scalar_type() != at::kBool && !self.is_complex(), op.name.substr(6),
              "(): does not support ", self.is_complex() ? "complex" : "bool", " input");
  const bool flat = !dim || self.dim() == 0;
  const int64_t wrapped = dim ? at::maybe_wrap_dim(*dim, self.dim()) : 0;
  TORCH_CHECK_INDEX(self.numel() != 0 || (!flat && self.size(wrapped) != 0), op.name.substr(6),
                    "(): Expected reduction dim ",
                    dim ? std::to_string(wrapped) + " to have non-zero size."
                        : "to be specified for input.numel() == 0.");
  c10::DimVector sizes;
  if (!flat) {
    sizes = reduced_sizes(self, {wrapped}, keepdim);
  } else if (keepdim) {
    sizes.assign(static_cast<size_t>(self.dim()), 1);
  }
  return Record(op)
      .tensor(self)
      .attribute(flat ? int64_t{0} : wrapped)
      .attribute(!flat && keepdim)
      .attribute(flat)
      .result(at::kLong, sizes);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("max.dim", TORCH_FN(extreme_along<kMaxDim>));
  m.impl("min.dim", TORCH_FN(extreme_along<kMinDim>));
  m.impl("argmax", TORCH_FN(index_of_extreme<kArgmax>));
  m.impl("argmin", TORCH_FN(index_of_extreme<kArgmin>));
}

}  // namespace
}  // namespace torch_pjrt::aten
