#include <torch/library.h>

#include "aten/ops/elementwise.h"
#include "aten/ops/log_add.h"
#include "graph/held_element.h"

// Running sums, products and extremes.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::OperandList;
using graph::Reducer;

// attribute: dim
template <Reducer kReducer>
void emit(Emission& e) {
  Builder& b = e.builder();
  const Operand x = b.convert(e.operand(0), compute_type(e.result_type().element));
  finish(e, b.cumulative(x, e.attributes.integer(), kReducer));
}

constexpr Operator kCumsum{"aten::cumsum", emit<Reducer::kAdd>};
constexpr Operator kCumprod{"aten::cumprod", emit<Reducer::kMultiply>};
constexpr Operator kLogCumsumExp{
    "aten::_logcumsumexp", [](Emission& e) {
      Builder& b = e.builder();
      const Operand x = b.convert(e.operand(0), compute_type(e.result_type().element));
      const auto body = [](Builder& b, OperandList lhs, OperandList rhs) {
        return Operands{log_add_exp(b, lhs[0], rhs[0])};
      };
      finish(e, b.associative_scan({x}, e.attributes.integer(), body)[0]);
    }};

// The later of equal ones, and of NaNs. results: value, index
template <bool kMax>
void emit_extreme(Emission& e) {
  Builder& b = e.builder();
  const Operand x = e.operand(0);
  const int64_t dim = e.attributes.integer();
  const Operand places = b.iota({graph::held(graph::ElementType::kS64), x.dimensions()}, dim);
  const auto body = [](Builder& b, OperandList lhs, OperandList rhs) {
    const Operand beats = kMax ? b.greater_equal(rhs[0], lhs[0]) : b.less_equal(rhs[0], lhs[0]);
    const Operand later = b.bit_or(b.is_nan(rhs[0]), b.bit_and(beats, b.bit_not(b.is_nan(lhs[0]))));
    return Operands{b.select(later, rhs[0], lhs[0]), b.select(later, rhs[1], lhs[1])};
  };
  const Operands both = b.associative_scan({x, places}, dim, body);
  e.result(0, both[0]);
  e.result(1, both[1]);
}

constexpr Operator kCummax{"aten::cummax", emit_extreme<true>};
constexpr Operator kCummin{"aten::cummin", emit_extreme<false>};

template <const Operator& op>
at::Tensor running(const at::Tensor& self, int64_t dim, std::optional<c10::ScalarType> dtype) {
  const bool integral = c10::isIntegralType(self.scalar_type(), true);
  const c10::ScalarType type = dtype.value_or(integral ? at::kLong : self.scalar_type());
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return self.to(type, /*non_blocking=*/false, /*copy=*/true);
  return Record(op).tensor(self).attribute(wrapped).result(type, self.sizes());
}

at::Tensor log_cumsum_exp(const at::Tensor& self, int64_t dim) {
  check_implemented(self.is_floating_point() || self.is_complex(), kLogCumsumExp,
                    self.scalar_type());
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return self.clone();
  return Record(kLogCumsumExp)
      .tensor(self)
      .attribute(wrapped)
      .result(self.scalar_type(), self.sizes());
}

template <const Operator& op>
void running_extreme(const at::Tensor& self, at::Tensor& values, at::Tensor& indices, int64_t dim) {
  if (self.dim() == 0) {
    values.copy_(self);
    indices.zero_();
    return;
  }
  const auto both = Record(op)
                        .tensor(self)
                        .attribute(at::maybe_wrap_dim(dim, self.dim()))
                        .results({{self.scalar_type(), self.sizes()}, {at::kLong, self.sizes()}});
  values.copy_(both[0]);
  indices.copy_(both[1]);
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("cumsum", TORCH_FN(running<kCumsum>));
  m.impl("cumprod", TORCH_FN(running<kCumprod>));
  m.impl("_logcumsumexp", TORCH_FN(log_cumsum_exp));
  m.impl("_cummax_helper", TORCH_FN(running_extreme<kCummax>));
  m.impl("_cummin_helper", TORCH_FN(running_extreme<kCummin>));
}

}  // namespace
}  // namespace torch_pjrt::aten
