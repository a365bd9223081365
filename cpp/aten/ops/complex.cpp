#include <torch/library.h>

#include "aten/ops/elementwise.h"

// Complex numbers from their parts.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;

template <auto kBody>
void emit_parts(Emission& e) {
  const auto whole = [&](size_t i) {
    StableHloBuilder& b = e.builder();
    const Operand part = b.convert(e.operand(i), compute_type(e.operand(i).element()));
    return b.broadcast_to(part, e.result_type().dimensions);
  };
  e.result(kBody(e.builder(), whole(0), whole(1)));
}

constexpr Operator kComplex{"aten::complex",
                            emit_parts<[](Builder& b, Operand real, Operand imaginary) {
                              return b.complex(real, imaginary);
                            }>};
constexpr Operator kPolar{"aten::polar", emit_parts<[](Builder& b, Operand size, Operand angle) {
                            return b.complex(b.multiply(size, b.cosine(angle)),
                                             b.multiply(size, b.sine(angle)));
                          }>};

template <const Operator& op>
at::Tensor from_parts(const at::Tensor& first, const at::Tensor& second) {
  const c10::ScalarType dtype = first.scalar_type();
  const auto fits = [](c10::ScalarType type) {
    return type == at::kFloat || type == at::kDouble || type == at::kHalf;
  };
  TORCH_CHECK(fits(dtype) && fits(second.scalar_type()),
              "Expected both inputs to be Half, Float or Double tensors but got ", dtype, " and ",
              second.scalar_type());
  TORCH_CHECK(dtype == second.scalar_type(), "Expected object of scalar type ", dtype,
              " but got scalar type ", second.scalar_type(), " for second argument");
  return Record(op)
      .on(executor_of({first, second}))
      .tensor(first)
      .tensor(second)
      .elementwise(c10::toComplexType(dtype), broadcast_sizes(first, second));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("complex", TORCH_FN(from_parts<kComplex>));
  m.impl("polar", TORCH_FN(from_parts<kPolar>));
}

}  // namespace
}  // namespace torch_pjrt::aten
