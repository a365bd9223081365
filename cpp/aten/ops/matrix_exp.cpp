#include <ATen/ops/linalg_matrix_exp.h>
#include <torch/library.h>

#include <cmath>

#include "aten/host_function.h"
#include "aten/ops/linalg.h"

// The exponential of matrices: a Taylor polynomial of the matrix divided by a power of two, squared
// as often.
namespace torch_pjrt::aten {
namespace {

using Builder = StableHloBuilder;
using graph::ElementType;
using graph::OperandList;
using graph::Reducer;

constexpr int kDegree = 20, kPowers = 4;

// Of a matrix with at most this norm the rest of the series is below what the type resolves. Every
// squaring doubles the error, so there are no more of them than that takes.
double greatest_norm(ElementType real) { return real == ElementType::kF64 ? 1 : 3; }

// Sums four powers at a time: c0 I + c1 x + c2 x^2 + c3 x^3, plus x^4 times the next four.
Operand taylor(Builder& b, Operand x) {
  const auto [row, column] = places(b, x);
  const Operand identity = b.convert(b.equal(row, column), x.element());
  Operands powers{identity, x};
  while (powers.size() <= kPowers) powers.push_back(b.matmul(powers.back(), x));
  double inverse_factorials[kDegree + 1] = {1};
  for (int i = 1; i <= kDegree; ++i) inverse_factorials[i] = inverse_factorials[i - 1] / i;
  Operand sum = b.multiply(powers[kPowers], inverse_factorials[kDegree]);
  for (int first = kDegree - kPowers; first >= 0; first -= kPowers) {
    for (int i = 0; i < kPowers; ++i) {
      const auto power = static_cast<size_t>(i);
      sum = b.add(sum, b.multiply(powers[power], inverse_factorials[first + i]));
    }
    if (first > 0) sum = b.matmul(sum, powers[kPowers]);
  }
  return sum;
}

void exponentiate_on_host(HostCall& call) {
  call.results[0].copy_(at::linalg_matrix_exp(call.arguments[0]));
}

void emit_exponential(Emission& e) {
  static constexpr auto kOnHost =
      host_function<exponentiate_on_host, MatrixOrder::kByRows>("torch_pjrt.matrix_exp");
  if (call_host(e, kOnHost, {e.operand(0)})) return;
  Builder& b = e.builder();
  if (e.result_type().element_count() == 0) return e.result(e.operand(0));
  const Operand x = as_batch(b, e.operand(0));
  const int64_t batch = x.dimension(0);
  const Operand sums = b.reduce(b.abs(x), Reducer::kAdd, {1});
  const Operand norm = b.reduce(sums, Reducer::kMaximum, {1});
  const Operand excess = b.log(b.divide(norm, greatest_norm(norm.element())));
  const Operand halvings =
      b.select(b.is_finite(norm), b.clamp(0, b.ceil(b.divide(excess, std::log(2.0))), 2000), 0);
  const Operand scale = b.power(2, b.negate(halvings));
  const Operand scaled =
      b.multiply(x, b.broadcast_in_dim(b.convert(scale, x.element()), x.dimensions(), {0}));
  const Operand times = b.convert(halvings, ElementType::kS32);
  const Operand most = b.reduce(times, Reducer::kMaximum, {0});
  const auto condition = [&](Builder& b, OperandList state) {
    return Operands{b.less(state[0], most)};
  };
  const auto body = [&](Builder& b, OperandList state) {
    const Operand goes_on = b.less(b.broadcast_to(state[0], {batch}), times);
    const Operand squared = b.matmul(state[1], state[1]);
    return Operands{b.add(state[0], 1),
                    b.select(b.broadcast_in_dim(goes_on, x.dimensions(), {0}), squared, state[1])};
  };
  const Operand power =
      b.while_loop({b.scalar(ElementType::kS32, 0), taylor(b, scaled)}, condition, body)[1];
  e.result(b.reshape(power, e.result_type().dimensions));
}

at::Tensor matrix_exp(const at::Tensor& self) {
  static constexpr Operator op{"aten::linalg_matrix_exp", emit_exponential};
  at::native::squareCheckInputs(self, "linalg.matrix_exp");
  at::native::checkFloatingOrComplex(self, "linalg.matrix_exp");
  // PyTorch on the cpu gives no sensible values for the shorter ones.
  if (c10::isReducedFloatingType(self.scalar_type())) {
    return matrix_exp(self.to(at::kFloat)).to(self.scalar_type());
  }
  return Record(op).tensor(check_lapack_dtype(self, op)).result(self.scalar_type(), self.sizes());
}

TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("linalg_matrix_exp", TORCH_FN(matrix_exp)); }

}  // namespace
}  // namespace torch_pjrt::aten
