#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/TensorFactories.h>
#include <torch/library.h>

#include <cmath>

#include "aten/any.h"
#include "aten/checks.h"
#include "aten/generator.h"
#include "aten/ops/random_bits.h"

// Random integers, choices and permutations.
namespace torch_pjrt::aten {
namespace {

using graph::ElementType;
using OptionalGenerator = std::optional<at::Generator>;

// operand: the probability in units of 2^-32
constexpr Operator kBernoulli{
    "aten::bernoulli", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      RandomNumbers numbers(e, type.dimensions, 1);
      const Operand bits = b.convert(numbers.bits32(), ElementType::kS64);
      e.result(
          b.convert(b.less(bits, b.broadcast_to(e.operand(2), type.dimensions)), type.element));
    }};
// operand: the probabilities
constexpr Operator kBernoulliTensor{
    "aten::bernoulli.Tensor", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const ElementType element = random_element(e.operand(2).element());
      const bool wide = element == ElementType::kF64;
      RandomNumbers numbers(e, type.dimensions, wide ? 2 : 1);
      const Operand u = numbers.uniform(element, wide ? 53 : 24);
      const Operand p = b.broadcast_to(b.convert(e.operand(2), element), type.dimensions);
      e.result(b.convert(b.less(u, p), type.element));
    }};

template <typename RNG>
struct BernoulliScalarKernel {
  void operator()(const at::Tensor& self, double p, OptionalGenerator gen) {
    Record record(kBernoulli);
    record.on(executor_of(self));
    take_random(record, self, gen, self.numel(), 1);
    record.number(static_cast<int64_t>(std::round(std::ldexp(p, 32))), at::kLong).write_to(self);
  }
};

constexpr Operator kNoProbability{
    "bernoulli: Expected p_in >= 0 && p_in <= 1; got another probability; check p",
    [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand p = e.operand(0);
      const Operand inside = b.bit_and(b.greater_equal(p, 0), b.less_equal(p, 1));
      e.result(any(b, b.bit_not(inside)));
    }};

template <typename RNG>
struct BernoulliTensorKernel {
  void operator()(const at::Tensor& self, const at::Tensor& p, OptionalGenerator gen) {
    TORCH_CHECK(at::isFloatingType(p.scalar_type()),
                "expected probabilities tensor to have floating type, got ", p.scalar_type());
    Record record(kBernoulliTensor);
    record.on(executor_of(self));
    take_random(record, self, gen, self.numel(), random_words(p.scalar_type()));
    const at::Tensor moved = p.to(self.device());
    check_never(kNoProbability, moved);
    record.tensor(moved.expand(self.sizes())).write_to(self);
  }
};

at::Tensor& bernoulli_float_(at::Tensor& self, double p, OptionalGenerator generator) {
  return at::native::templates::bernoulli_impl_<BernoulliScalarKernel, XlaGenerator>(
      self, p, std::move(generator));
}

at::Tensor& bernoulli_tensor_(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  return at::native::templates::bernoulli_impl_<BernoulliTensorKernel, XlaGenerator>(
      self, p, std::move(generator));
}

at::Tensor bernoulli_p(const at::Tensor& self, double p, OptionalGenerator generator) {
  at::Tensor result = at::empty_like(self, at::MemoryFormat::Contiguous);
  return bernoulli_float_(result, p, std::move(generator));
}

// operands: range (0 is 2^64), base; attributes: words
constexpr Operator kRandom{
    "aten::random", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const bool wide = e.attributes.integer() == 2;
      const bool whole = e.attributes.boolean();
      RandomNumbers numbers(e, type.dimensions, wide ? 2 : 1);
      Operand x = wide ? numbers.bits64() : numbers.bits32();
      if (!whole) {
        Operand range = b.bitcast_convert(e.operand(2), ElementType::kU64);
        x = b.remainder(x, b.broadcast_to(b.convert(range, x.element()), type.dimensions));
      }
      x = b.bitcast_convert(b.convert(x, ElementType::kU64), ElementType::kS64);
      x = b.add(x, b.broadcast_to(e.operand(3), type.dimensions));
      e.result(b.convert(x, type.element));
    }};

void fill_integers(const at::Tensor& self, uint64_t range, int64_t base, OptionalGenerator gen) {
  const int words = range != 0 && range <= UINT32_MAX ? 1 : 2;
  Record record(kRandom);
  record.on(executor_of(self));
  take_random(record, self, gen, self.numel(), words);
  record.number(static_cast<int64_t>(range), at::kLong).number(base, at::kLong);
  record.attribute(static_cast<int64_t>(words)).attribute(range == 0).write_to(self);
}

template <typename RNG>
struct RandomFromToKernel {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base,
                  OptionalGenerator gen) {
    fill_integers(iter.tensor(0), range, base, std::move(gen));
  }
  void operator()(at::TensorIteratorBase& iter, OptionalGenerator gen) {
    fill_integers(iter.tensor(0), 0, 0, std::move(gen));
  }
};

// Every integer up to the largest, or every one that the mantissa of a floating dtype holds.
uint64_t whole_range(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return 2;
    case at::kByte:
      return uint64_t{1} << 8;
    case at::kChar:
      return uint64_t{1} << 7;
    case at::kShort:
      return uint64_t{1} << 15;
    case at::kInt:
      return uint64_t{1} << 31;
    case at::kLong:
      return uint64_t{1} << 63;
    case at::kUInt16:
      return uint64_t{1} << 16;
    case at::kUInt32:
      return uint64_t{1} << 32;
    case at::kUInt64:
      return 0;
    case at::kDouble:
      return (uint64_t{1} << 53) + 1;
    case at::kFloat:
      return (uint64_t{1} << 24) + 1;
    case at::kHalf:
      return (uint64_t{1} << 11) + 1;
    case at::kBFloat16:
      return (uint64_t{1} << 8) + 1;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"random_kernel\" not implemented for '", dtype, "'");
  }
}

template <typename RNG>
struct RandomKernel {
  void operator()(at::TensorIteratorBase& iter, OptionalGenerator gen) {
    const at::Tensor& self = iter.tensor(0);
    fill_integers(self, whole_range(self.scalar_type()), 0, std::move(gen));
  }
};

at::Tensor& random_(at::Tensor& self, OptionalGenerator generator) {
  return at::native::templates::random_impl<RandomKernel, XlaGenerator>(self, std::move(generator));
}

at::Tensor& random_from_(at::Tensor& self, int64_t from, std::optional<int64_t> to,
                         OptionalGenerator generator) {
  return at::native::templates::random_from_to_impl<RandomFromToKernel, XlaGenerator>(
      self, from, to, std::move(generator));
}

at::Tensor& random_to_(at::Tensor& self, int64_t to, OptionalGenerator generator) {
  return random_from_(self, 0, to, std::move(generator));
}

// Sorting random keys of 64 bits: equal keys are too rare to matter.
constexpr Operator kRandperm{
    "aten::randperm", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      RandomNumbers numbers(e, type.dimensions, 2);
      const Operands sorted =
          b.sort({numbers.bits64(), b.iota({ElementType::kS64, type.dimensions}, 0)}, 0, false,
                 [](StableHloBuilder& body, graph::OperandList lhs, graph::OperandList rhs) {
                   return body.less(lhs[0], rhs[0]);
                 });
      e.result(b.convert(sorted[1], type.element));
    }};

at::Tensor& randperm_out(int64_t n, OptionalGenerator generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  if (n == 0) return out;
  Record record(kRandperm);
  record.on(executor_of(out));
  take_random(record, out, generator, n, 2);
  record.write_to(out);
  return out;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_float_));
  m.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor_));
  m.impl("bernoulli.p", TORCH_FN(bernoulli_p));
  m.impl("random_", TORCH_FN(random_));
  m.impl("random_.from", TORCH_FN(random_from_));
  m.impl("random_.to", TORCH_FN(random_to_));
  m.impl("randperm.generator_out", TORCH_FN(randperm_out));
}

}  // namespace
}  // namespace torch_pjrt::aten
