#include "aten/ops/reduce.h"
#include "graph/held_element.h"

#include <torch/library.h>

// Sums, products, extremes, logic and hashes over dimensions.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Reducer;

template <Reducer kReducer>
void emit(Emission& e) {
  const Reduction r(e);
  finish(e, e.builder().reduce(r.x, kReducer, r.dims, r.keepdim));
}

constexpr Operator kSum{"aten::sum", emit<Reducer::kAdd>};
constexpr Operator kProd{"aten::prod", emit<Reducer::kMultiply>};
constexpr Operator kAmax{"aten::amax", emit<Reducer::kMaximum>};
constexpr Operator kAmin{"aten::amin", emit<Reducer::kMinimum>};

// NaN counts as 0.
constexpr Operator kNanSum{"aten::nansum", [](Emission& e) {
                             Builder& b = e.builder();
                             const Reduction r(e);
                             const Operand x = b.select(b.is_nan(r.x), b.zeros_like(r.x), r.x);
                             finish(e, b.reduce(x, Reducer::kAdd, r.dims, r.keepdim));
                           }};
// attribute: the count
constexpr Operator kMean{"aten::mean", [](Emission& e) {
                           Builder& b = e.builder();
                           const Reduction r(e);
                           const double count = static_cast<double>(e.attributes.integer());
                           const Operand sum = b.reduce(r.x, Reducer::kAdd, r.dims, r.keepdim);
                           finish(e, b.divide(sum, count));
                         }};

template <Reducer kReducer>
void emit_logic(Emission& e) {
  const Reduction r(e, ElementType::kPred);
  finish(e, e.builder().reduce(r.x, kReducer, r.dims, r.keepdim));
}

constexpr Operator kAll{"aten::all", emit_logic<Reducer::kAnd>};
constexpr Operator kAny{"aten::any", emit_logic<Reducer::kOr>};
constexpr Operator kCountNonzero{
    "aten::count_nonzero", [](Emission& e) {
      Builder& b = e.builder();
      const Reduction r(e, ElementType::kPred);
      e.result(b.reduce(b.convert(r.x, graph::held(graph::ElementType::kS64)), Reducer::kAdd,
                        r.dims, r.keepdim));
    }};

c10::ScalarType sum_dtype(const at::Tensor& self, std::optional<c10::ScalarType> dtype) {
  return dtype.value_or(c10::isIntegralType(self.scalar_type(), true) ? at::kLong
                                                                      : self.scalar_type());
}

template <const Operator& op>
at::Tensor sum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
               std::optional<c10::ScalarType> dtype) {
  const c10::DimVector dims = reduced_dims(self, dim);
  return reduction_record(op, self, dims, keepdim)
      .result(sum_dtype(self, dtype), reduced_sizes(self, dims, keepdim));
}

at::Tensor prod(const at::Tensor& self, std::optional<c10::ScalarType> dtype) {
  return sum<kProd>(self, std::nullopt, false, dtype);
}

at::Tensor prod_dim(const at::Tensor& self, int64_t dim, bool keepdim,
                    std::optional<c10::ScalarType> dtype) {
  return sum<kProd>(self, at::IntArrayRef(dim), keepdim, dtype);
}

at::Tensor nansum(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                  std::optional<c10::ScalarType> dtype) {
  TORCH_CHECK(!self.is_complex(), "nansum does not support complex inputs");
  return sum<kNanSum>(self, dim, keepdim, dtype);
}

at::Tensor mean(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                std::optional<c10::ScalarType> dtype) {
  const c10::ScalarType type = dtype.value_or(self.scalar_type());
  TORCH_CHECK(c10::isFloatingType(type) || c10::isComplexType(type),
              "mean(): could not infer output dtype. ", dtype ? "Optional" : "Input",
              " dtype must be either a floating point or complex dtype. Got: ", type);
  const c10::DimVector dims = reduced_dims(self, dim);
  return reduction_record(kMean, self, dims, keepdim)
      .attribute(reduced_count(self, dims))
      .result(type, reduced_sizes(self, dims, keepdim));
}

template <const Operator& op>
at::Tensor extreme(const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  TORCH_CHECK(!self.is_complex(), op.name.substr(6), "(): not supported for complex inputs");
  if (self.numel() == 0) check_nonempty(op, self, dim.empty() ? dim : reduced_dims(self, dim));
  const c10::DimVector dims = reduced_dims(self, dim);
  return reduction_record(op, self, dims, keepdim)
      .result(self.scalar_type(), reduced_sizes(self, dims, keepdim));
}

template <const Operator& op>
at::Tensor full_extreme(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, &op == &kAmax ? "max" : "min",
              "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
              "reduction dim with the 'dim' argument.");
  return extreme<op>(self, {}, false);
}

std::tuple<at::Tensor, at::Tensor> aminmax(const at::Tensor& self, std::optional<int64_t> dim,
                                           bool keepdim) {
  TORCH_CHECK(dim || self.numel() > 0,
              "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
              "identity.");
  const auto dims = dim ? at::IntArrayRef(*dim) : at::IntArrayRef();
  return {extreme<kAmin>(self, dims, keepdim), extreme<kAmax>(self, dims, keepdim)};
}

// Byte tensors stay so, as in PyTorch.
template <const Operator& op>
at::Tensor logic_dims(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  // An empty list reduces nothing here.
  const bool none = dim && dim->empty();
  const c10::DimVector dims = none ? c10::DimVector() : reduced_dims(self, dim);
  return reduction_record(op, self, dims, keepdim)
      .result(self.scalar_type() == at::kByte ? at::kByte : at::kBool,
              reduced_sizes(self, dims, keepdim));
}

template <const Operator& op>
at::Tensor logic_dim(const at::Tensor& self, int64_t dim, bool keepdim) {
  return logic_dims<op>(self, at::IntArrayRef(dim), keepdim);
}

template <const Operator& op>
at::Tensor logic(const at::Tensor& self) {
  return logic_dims<op>(self, std::nullopt, false);
}

at::Tensor count_nonzero(const at::Tensor& self, at::IntArrayRef dim) {
  const c10::DimVector dims = reduced_dims(self, dim);
  return reduction_record(kCountNonzero, self, dims, false)
      .result(at::kLong, reduced_sizes(self, dims, false));
}

// Float32 bits as those of the same float64. XLA CPU takes subnormal numbers for 0 in conversions,
// so these are made from their integers.
Operand widened_bits(Builder& b, Operand x) {
  const Operand bits = b.bitcast_convert(x, ElementType::kU32);
  const Operand usual = b.bitcast_convert(b.convert(x, ElementType::kF64), ElementType::kU64);
  const Operand fraction = b.convert(b.bit_and(bits, 0x7fffff), ElementType::kF64);
  const Operand small = b.bitcast_convert(b.multiply(fraction, 0x1p-149), ElementType::kU64);
  const Operand sign = b.convert(b.bit_and(bits, 0x80000000u), ElementType::kU64);
  const Operand is_small = b.equal(b.bit_and(bits, 0x7f800000), 0);
  return b.select(is_small, b.bit_or(small, b.shift_left(sign, 32)), usual);
}

constexpr Operator kHash{
    "aten::hash_tensor", [](Emission& e) {
      Builder& b = e.builder();
      Operand x = e.operand(0);
      if (x.element() == ElementType::kF64) {
        x = b.bitcast_convert(x, ElementType::kU64);
      } else if (pjrt::is_floating(x.element())) {
        x = widened_bits(b, b.convert(x, ElementType::kF32));
      } else {
        x = b.bitcast_convert(b.convert(x, ElementType::kS64), ElementType::kU64);
      }
      graph::Dimensions dims;
      for (int64_t d : e.attributes.list()) dims.push_back(d);
      const auto both = [](Builder& b, graph::OperandList p, graph::OperandList q) {
        return Operands{b.bit_xor(p[0], q[0])};
      };
      const Operand none = b.scalar(ElementType::kU64, 0);
      if (!dims.empty()) x = b.reduce({x}, {none}, dims, both)[0];
      e.result(b.reshape(x, e.result_type().dimensions));
    }};

at::Tensor hash_tensor(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, int64_t mode) {
  const c10::ScalarType dtype = self.scalar_type();
  TORCH_CHECK(mode == 0, "Unknown hash_tensor mode: ", mode);
  const c10::DimVector dims = reduced_dims(self, dim);
  check_nonempty(kHash, self, dim.empty() ? dim : at::IntArrayRef(dims));
  const bool known = at::isFloatingType(dtype) || at::isIntegralType(dtype, true);
  const bool is_new = c10::isBarebonesUnsignedType(dtype) || c10::isFloat8Type(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(known && !is_new, "\"xor_sum_cpu\" not implemented for '", dtype,
                              "'");
  return Record(kHash).tensor(self).attribute(dims).result(at::kUInt64,
                                                           reduced_sizes(self, dims, keepdim));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("hash_tensor", TORCH_FN(hash_tensor));
  m.impl("sum.dim_IntList", TORCH_FN(sum<kSum>));
  m.impl("nansum", TORCH_FN(nansum));
  m.impl("prod", TORCH_FN(prod));
  m.impl("prod.dim_int", TORCH_FN(prod_dim));
  m.impl("mean.dim", TORCH_FN(mean));
  m.impl("amax", TORCH_FN(extreme<kAmax>));
  m.impl("amin", TORCH_FN(extreme<kAmin>));
  m.impl("max", TORCH_FN(full_extreme<kAmax>));
  m.impl("min", TORCH_FN(full_extreme<kAmin>));
  m.impl("aminmax", TORCH_FN(aminmax));
  m.impl("all", TORCH_FN(logic<kAll>));
  m.impl("all.dim", TORCH_FN(logic_dim<kAll>));
  m.impl("all.dims", TORCH_FN(logic_dims<kAll>));
  m.impl("any", TORCH_FN(logic<kAny>));
  m.impl("any.dim", TORCH_FN(logic_dim<kAny>));
  m.impl("any.dims", TORCH_FN(logic_dims<kAny>));
  m.impl("count_nonzero.dim_IntList", TORCH_FN(count_nonzero));
}

}  // namespace
}  // namespace torch_pjrt::aten
