#include <torch/library.h>

#include <cmath>
#include <limits>

#include "aten/ops/reduce.h"

// Variance, norms and logsumexp.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::Reducer;

Operand spread(Builder& b, Operand reduced, Operand x) {
  return b.broadcast_to(reduced, x.dimensions());
}

// attributes after the reduction's: count, correction; the second result is the mean
template <bool kRoot, bool kWithMean>
void emit_variance(Emission& e) {
  Builder& b = e.builder();
  const bool complex = pjrt::is_complex(e.operand(0).element());
  const Reduction r(e, complex ? e.operand(0).element() : compute_type(e.result_type().element));
  const double count = static_cast<double>(e.attributes.integer());
  const double correction = e.attributes.real();
  const Operand mean = b.divide(b.reduce(r.x, Reducer::kAdd, r.dims, true), count);
  const Operand distance = b.subtract(r.x, spread(b, mean, r.x));
  const Operand square = b.square(complex ? b.abs(distance) : distance);
  const Operand sum = b.reduce(square, Reducer::kAdd, r.dims, r.keepdim);
  const Operand variance = b.divide(sum, std::max(count - correction, 0.0));
  finish(e, kRoot ? b.sqrt(variance) : variance);
  if (!kWithMean) return;
  const graph::Type& type = e.result_type(1);
  e.result(1, b.convert(b.reshape(mean, type.dimensions), type.element));
}

constexpr Operator kVar{"aten::var", emit_variance<false, false>};
constexpr Operator kStd{"aten::std", emit_variance<true, false>};
constexpr Operator kVarMean{"aten::var_mean", emit_variance<false, true>};
constexpr Operator kStdMean{"aten::std_mean", emit_variance<true, true>};

Record variance_record(const Operator& op, const at::Tensor& self, at::IntArrayRef dims,
                       const std::optional<at::Scalar>& correction, bool keepdim) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), op.name.substr(6),
              " only support floating point and complex dtypes");
  const double value = correction.value_or(1).toDouble();
  const int64_t count = reduced_count(self, dims);
  if (static_cast<double>(count) <= value) {
    TORCH_WARN(op.name.substr(6),
               "(): degrees of freedom is <= 0. Correction should be strictly less than the "
               "reduction factor (input numel divided by output numel).");
  }
  return std::move(reduction_record(op, self, dims, keepdim).attribute(count).attribute(value));
}

template <const Operator& op>
at::Tensor variance(const at::Tensor& self, at::OptionalIntArrayRef dim,
                    const std::optional<at::Scalar>& correction, bool keepdim) {
  const c10::DimVector dims = reduced_dims(self, dim);
  return variance_record(op, self, dims, correction, keepdim)
      .result(real_type(self.scalar_type()), reduced_sizes(self, dims, keepdim));
}

template <const Operator& op>
std::tuple<at::Tensor, at::Tensor> variance_and_mean(const at::Tensor& self,
                                                     at::OptionalIntArrayRef dim,
                                                     const std::optional<at::Scalar>& correction,
                                                     bool keepdim) {
  const c10::DimVector dims = reduced_dims(self, dim);
  const c10::DimVector sizes = reduced_sizes(self, dims, keepdim);
  auto both = variance_record(op, self, dims, correction, keepdim)
                  .results({{real_type(self.scalar_type()), sizes}, {self.scalar_type(), sizes}});
  return {both[0], both[1]};
}

// attribute: the order, which is structural
constexpr Operator kVectorNorm{
    "aten::linalg_vector_norm", [](Emission& e) {
      Builder& b = e.builder();
      const bool complex = pjrt::is_complex(e.operand(0).element());
      const Reduction r(e,
                        complex ? e.operand(0).element() : compute_type(e.result_type().element));
      const double order = e.attributes.real();
      const Operand x = b.convert(b.abs(r.x), compute_type(e.result_type().element));
      const auto reduce = [&](Operand y, Reducer reducer) {
        return b.reduce(y, reducer, r.dims, r.keepdim);
      };
      if (order == INFINITY) return finish(e, reduce(x, Reducer::kMaximum));
      if (order == -INFINITY) return finish(e, reduce(x, Reducer::kMinimum));
      if (order == 0) {
        return finish(e, reduce(b.convert(b.not_equal(x, 0), x.element()), Reducer::kAdd));
      }
      if (order == 1) return finish(e, reduce(x, Reducer::kAdd));
      if (order == 2) return finish(e, b.sqrt(reduce(b.square(x), Reducer::kAdd)));
      const Operand sum = reduce(b.power(x, order), Reducer::kAdd);
      finish(e, b.power(sum, 1 / order));
    }};

at::Tensor vector_norm(const at::Tensor& self, const at::Scalar& order, at::OptionalIntArrayRef dim,
                       bool keepdim, std::optional<c10::ScalarType> dtype) {
  const c10::ScalarType in = dtype.value_or(self.scalar_type());
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
              self.scalar_type());
  TORCH_CHECK(c10::isFloatingType(in) || c10::isComplexType(in),
              "linalg.vector_norm: dtype should be floating point or complex. Got ", in);
  TORCH_CHECK(!self.is_complex() || c10::isComplexType(in),
              "linalg.vector_norm: dtype should be complex for complex inputs. Got ", in);
  const double value = order.toDouble();
  const c10::DimVector dims = reduced_dims(self, dim);
  if (self.numel() == 0 && (value < 0 || value == INFINITY)) {
    TORCH_CHECK(dim && !dim->empty(), "linalg.vector_norm cannot compute the ", value,
                " norm on an empty tensor because the operation does not have an identity");
    for (int64_t d : dims) {
      TORCH_CHECK(self.size(d) != 0, "linalg.vector_norm cannot compute the ", value,
                  " norm on the dimension ", d,
                  " because this dimension is empty and the operation does not have an identity");
    }
  }
  return reduction_record(kVectorNorm, self, dims, keepdim)
      .attribute(value)
      .result(real_type(in), reduced_sizes(self, dims, keepdim));
}

at::Tensor norm(const at::Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim,
                bool keepdim) {
  return vector_norm(self, p.value_or(2), dim, keepdim, std::nullopt);
}

at::Tensor norm_dtype(const at::Tensor& self, const std::optional<at::Scalar>& p,
                      at::IntArrayRef dim, bool keepdim, c10::ScalarType dtype) {
  return vector_norm(self, p.value_or(2), dim, keepdim, dtype);
}

at::Tensor logsumexp(const at::Tensor& self, at::IntArrayRef dim, bool keepdim) {
  static constexpr Operator op{
      "aten::logsumexp", [](Emission& e) {
        Builder& b = e.builder();
        const Reduction r(e);
        Operand most = b.reduce(b.real(r.x), Reducer::kMaximum, r.dims, true);
        most = b.select(b.is_inf(most), b.zeros_like(most), most);
        most = b.convert(most, r.x.element());
        const Operand powers = b.exponential(b.subtract(r.x, spread(b, most, r.x)));
        const Operand sum = b.reduce(powers, Reducer::kAdd, r.dims, r.keepdim);
        finish(e, b.add(b.log(sum), b.reshape(most, sum.dimensions())));
      }};
  const c10::DimVector dims = reduced_dims(self, dim);
  return reduction_record(op, self, dims, keepdim)
      .result(float_type(self.scalar_type()), reduced_sizes(self, dims, keepdim));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("var.correction", TORCH_FN(variance<kVar>));
  m.impl("std.correction", TORCH_FN(variance<kStd>));
  m.impl("var_mean.correction", TORCH_FN(variance_and_mean<kVarMean>));
  m.impl("std_mean.correction", TORCH_FN(variance_and_mean<kStdMean>));
  m.impl("linalg_vector_norm", TORCH_FN(vector_norm));
  m.impl("norm.ScalarOpt_dim", TORCH_FN(norm));
  m.impl("norm.ScalarOpt_dim_dtype", TORCH_FN(norm_dtype));
  m.impl("logsumexp", TORCH_FN(logsumexp));
}

}  // namespace
}  // namespace torch_pjrt::aten
