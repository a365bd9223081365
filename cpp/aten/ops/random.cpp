#include <ATen/native/DistributionTemplates.h>
#include <torch/library.h>

#include "aten/generator.h"
#include "aten/ops/random_bits.h"

// Filling a tensor with random numbers. The argument checks are PyTorch's own templates, which call
// the kernels below.
namespace torch_pjrt::aten {
namespace {

using graph::ElementType;
using OptionalGenerator = std::optional<at::Generator>;

// Random bits of a uniform number, as many as the dtype's mantissa has.
int uniform_bits(ElementType element) {
  switch (element) {
    case ElementType::kF64:
      return 53;
    case ElementType::kF16:
      return 11;
    case ElementType::kBF16:
      return 8;
    default:
      return 24;
  }
}

// The operands after seed and offset, spread over the result in the random numbers' type.
Operand spread(Emission& e, size_t operand) {
  StableHloBuilder& b = e.builder();
  const graph::Type& type = e.result_type();
  return b.broadcast_to(b.convert(e.operand(operand), random_element(type.element)),
                        type.dimensions);
}

RandomNumbers numbers_for(Emission& e) {
  const graph::Type& type = e.result_type();
  return RandomNumbers(e, type.dimensions, type.element == ElementType::kF64 ? 2 : 1);
}

// A record of an operator that fills `self` with one number an element, of the default words.
Record fill_record(const Operator& op, const at::Tensor& self, const OptionalGenerator& generator) {
  Record record(op);
  record.on(executor_of(self));
  take_random(record, self, generator, self.numel(), random_words(self.scalar_type()));
  return record;
}

c10::ScalarType parameter_dtype(const at::Tensor& self) {
  return self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// operands: from, to - from
constexpr Operator kUniform{"aten::uniform", [](Emission& e) {
                              StableHloBuilder& b = e.builder();
                              const ElementType element = e.result_type().element;
                              Operand x = numbers_for(e).uniform(random_element(element),
                                                                 uniform_bits(element));
                              x = b.add(b.multiply(x, spread(e, 3)), spread(e, 2));
                              e.result(b.convert(x, element));
                            }};

template <typename RNG>
struct UniformKernel {
  void operator()(at::TensorIteratorBase& iter, double from, double to, OptionalGenerator gen) {
    const at::Tensor& self = iter.tensor(0);
    const c10::ScalarType dtype = parameter_dtype(self);
    fill_record(kUniform, self, gen).number(from, dtype).number(to - from, dtype).write_to(self);
  }
};

at::Tensor& uniform_(at::Tensor& self, double from, double to, OptionalGenerator generator) {
  return at::native::templates::uniform_impl_<UniformKernel, XlaGenerator>(self, from, to,
                                                                           std::move(generator));
}

// operands: mean, deviation
constexpr Operator kNormal{
    "aten::normal", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const ElementType element = e.result_type().element;
      const Operand z = numbers_for(e).normal(random_element(element));
      e.result(b.convert(b.add(b.multiply(z, spread(e, 3)), spread(e, 2)), element));
    }};

template <typename RNG>
struct NormalKernel {
  void operator()(const at::Tensor& self, double mean, double std, OptionalGenerator gen) {
    TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()),
                                "\"normal_kernel_cpu\" not implemented for '", self.scalar_type(),
                                "'");
    const c10::ScalarType dtype = parameter_dtype(self);
    fill_record(kNormal, self, gen).number(mean, dtype).number(std, dtype).write_to(self);
  }
};

at::Tensor& normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  return at::native::templates::normal_impl_<NormalKernel, XlaGenerator>(self, mean, std,
                                                                         std::move(generator));
}

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, OptionalGenerator generator) {
  return at::native::templates::normal_impl<NormalKernel, XlaGenerator>(mean, std,
                                                                        std::move(generator));
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, OptionalGenerator generator) {
  return at::native::templates::normal_impl<NormalKernel, XlaGenerator>(mean, std,
                                                                        std::move(generator));
}

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std,
                                OptionalGenerator generator) {
  return at::native::templates::normal_impl<NormalKernel, XlaGenerator>(mean, std,
                                                                        std::move(generator));
}

// operands: mean, deviation of the logarithm
constexpr Operator kLogNormal{"aten::log_normal", [](Emission& e) {
                                StableHloBuilder& b = e.builder();
                                const ElementType element = e.result_type().element;
                                const Operand z = numbers_for(e).normal(random_element(element));
                                const Operand logarithm =
                                    b.add(b.multiply(z, spread(e, 3)), spread(e, 2));
                                e.result(b.convert(b.exponential(logarithm), element));
                              }};

void check_continuous(const char* name, const at::Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), name,
              " distribution is a continuous probability distribution. dtype must be a floating "
              "point but you specified ",
              self.dtype());
}

template <typename RNG>
struct LogNormalKernel {
  void operator()(at::TensorIteratorBase& iter, double mean, double std, OptionalGenerator gen) {
    const at::Tensor& self = iter.tensor(0);
    check_continuous("LogNormal", self);
    const c10::ScalarType dtype = parameter_dtype(self);
    fill_record(kLogNormal, self, gen).number(mean, dtype).number(std, dtype).write_to(self);
  }
};

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  return at::native::templates::log_normal_impl_<LogNormalKernel, XlaGenerator>(
      self, mean, std, std::move(generator));
}

// operand: the mean
constexpr Operator kExponential{"aten::exponential", [](Emission& e) {
                                  StableHloBuilder& b = e.builder();
                                  const ElementType element = e.result_type().element;
                                  const Operand x =
                                      numbers_for(e).exponential(random_element(element));
                                  e.result(b.convert(b.multiply(x, spread(e, 2)), element));
                                }};

template <typename RNG>
struct ExponentialKernel {
  void operator()(at::TensorIteratorBase& iter, double lambda, OptionalGenerator gen) {
    const at::Tensor& self = iter.tensor(0);
    check_continuous("Exponential", self);
    fill_record(kExponential, self, gen).number(1 / lambda, parameter_dtype(self)).write_to(self);
  }
};

at::Tensor& exponential_(at::Tensor& self, double lambda, OptionalGenerator generator) {
  return at::native::templates::exponential_impl_<ExponentialKernel, XlaGenerator>(
      self, lambda, std::move(generator));
}

// Trials up to the first success. operand: what an exponential number is divided by
constexpr Operator kGeometric{
    "aten::geometric", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const ElementType element = e.result_type().element;
      const Operand x = numbers_for(e).exponential(random_element(element));
      const Operand trials = b.maximum(b.ceil(b.divide(x, spread(e, 2))), 1.0);
      e.result(b.convert(trials, element));
    }};

template <typename RNG>
struct GeometricKernel {
  void operator()(at::TensorIteratorBase& iter, double p, OptionalGenerator gen) {
    const at::Tensor& self = iter.tensor(0);
    fill_record(kGeometric, self, gen)
        .number(-std::log1p(-p), parameter_dtype(self))
        .write_to(self);
  }
};

at::Tensor& geometric_(at::Tensor& self, double p, OptionalGenerator generator) {
  return at::native::templates::geometric_impl_<GeometricKernel, XlaGenerator>(
      self, p, std::move(generator));
}

// operands: median, scale
constexpr Operator kCauchy{
    "aten::cauchy", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const ElementType element = e.result_type().element;
      const Operand u = numbers_for(e).open_uniform(random_element(element));
      const Operand x = b.tan(b.multiply(b.subtract(u, 0.5), 3.141592653589793));
      e.result(b.convert(b.add(b.multiply(x, spread(e, 3)), spread(e, 2)), element));
    }};

template <typename RNG>
struct CauchyKernel {
  void operator()(at::TensorIteratorBase& iter, double median, double sigma,
                  OptionalGenerator gen) {
    const at::Tensor& self = iter.tensor(0);
    const c10::ScalarType dtype = parameter_dtype(self);
    fill_record(kCauchy, self, gen).number(median, dtype).number(sigma, dtype).write_to(self);
  }
};

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, OptionalGenerator generator) {
  return at::native::templates::cauchy_impl_<CauchyKernel, XlaGenerator>(self, median, sigma,
                                                                         std::move(generator));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("uniform_", TORCH_FN(uniform_));
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("normal.Tensor_float", TORCH_FN(normal_tensor_float));
  m.impl("normal.float_Tensor", TORCH_FN(normal_float_tensor));
  m.impl("normal.Tensor_Tensor", TORCH_FN(normal_tensor_tensor));
  m.impl("log_normal_", TORCH_FN(log_normal_));
  m.impl("exponential_", TORCH_FN(exponential_));
  m.impl("geometric_", TORCH_FN(geometric_));
  m.impl("cauchy_", TORCH_FN(cauchy_));
}

}  // namespace
}  // namespace torch_pjrt::aten
