#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

Operands StableHloBuilder::sort(OperandList operands, int64_t dim, bool stable,
                                const Comparator& comparator) {
  constexpr std::string_view kName = "stablehlo.sort";
  Statement::check(*this, kName, operands);
  if (operands.empty()) fail(kName, "nothing to sort", "0 operands", "at least 1");
  dim = normalized_dim(dim, operands[0].rank(), kName);
  std::vector<Type> results, arguments;
  for (const Operand& x : operands) {
    if (x.dimensions() != operands[0].dimensions()) {
      fail(kName, "operand shapes differ",
           to_string(operands[0].type()) + " and " + to_string(x.type()), "equal shapes");
    }
    results.push_back(x.type());
    arguments.insert(arguments.end(), 2, Type{x.element(), {}});
  }
  Statement s(*this, "\"stablehlo.sort\"(", results);
  s.operands(operands).text(") <{dimension = ").number(dim);
  s.text(stable ? " : i64, is_stable = true}> (" : " : i64, is_stable = false}> (");
  s.region(kName, arguments, true,
           [&](StableHloBuilder& builder, OperandList pairs) {
             Operands lhs, rhs;
             for (size_t i = 0; i < pairs.size(); i += 2) {
               lhs.push_back(pairs[i]);
               rhs.push_back(pairs[i + 1]);
             }
             return Operands{comparator(builder, lhs, rhs)};
           },
           {Type{ElementType::kPred, {}}});
  s.text(")").signature(operands);
  return s.end_all();
}

std::pair<Operand, Operand> StableHloBuilder::sort_with_indices(Operand x, int64_t dim,
                                                                bool descending,
                                                                ElementType index) {
  Statement::check(*this, "sort_with_indices", x);
  const int64_t size = x.dimension(dim);
  const bool narrow = size <= INT32_MAX;
  const Type counts{narrow ? ElementType::kS32 : ElementType::kS64, x.dimensions()};
  const bool floating = pjrt::is_floating(x.element());
  const Operands sorted =
      sort({x, iota(counts, dim)}, dim, true,
           [=](StableHloBuilder& b, OperandList lhs, OperandList rhs) {
             const Operand low = descending ? rhs[0] : lhs[0];
             const Operand high = descending ? lhs[0] : rhs[0];
             const Operand less = b.less(low, high);
             if (!floating) return less;
             // A NaN is greater than any number, and equal to a NaN.
             return b.bit_or(less, b.bit_and(b.is_nan(high), b.equal(low, low)));
           });
  return {sorted[0], convert(sorted[1], index)};
}

std::pair<Operand, Operand> StableHloBuilder::top_k(Operand x, int64_t k) {
  constexpr std::string_view kName = "chlo.top_k";
  Statement::check(*this, kName, x);
  if (x.rank() == 0 || k < 0 || k > x.dimension(-1) || pjrt::is_complex(x.element()) ||
      x.element() == ElementType::kPred) {
    fail(kName, "the operand does not fit", to_string(x.type()) + " with k = " + std::to_string(k),
         "a numeric array whose last dimension is at least k");
  }
  Type values = x.type();
  values.dimensions.back() = k;
  const Type results[] = {values, {ElementType::kS32, values.dimensions}};
  Statement s(*this, "chlo.top_k(", std::span(results));
  s.operand(x).text(", k = ").number(k).text(") : ").type(x.type());
  s.text(" -> (").type(results[0]).text(", ").type(results[1]).text(")");
  const Operands both = s.end_all();
  return {both[0], both[1]};
}

std::pair<Operand, Operand> StableHloBuilder::rng_bit_generator(Operand state,
                                                                RngAlgorithm algorithm,
                                                                const Type& bits) {
  constexpr std::string_view kName = "stablehlo.rng_bit_generator";
  Statement::check(*this, kName, state);
  const int64_t words = state.rank() == 1 ? state.dimension(0) : 0;
  if (state.element() != ElementType::kU64 ||
      !(words == 2 || (words == 3 && algorithm != RngAlgorithm::kThreeFry))) {
    fail(kName, "the state does not fit the algorithm", to_string(state.type()),
         "tensor<2xui64>, or tensor<3xui64> for Philox");
  }
  if (!pjrt::is_unsigned_integer(bits.element)) {
    fail(kName, "the bits' type is not unsigned", to_string(bits), "an unsigned integer type");
  }
  constexpr std::string_view kNames[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
  const Type results[] = {state.type(), bits};
  Statement s(*this, kName, std::span(results));
  s.text(" ").operand(state).text(", algorithm = ");
  s.text(kNames[static_cast<size_t>(algorithm)]).signature({state});
  const Operands both = s.end_all();
  return {both[0], both[1]};
}

}  // namespace torch_pjrt::graph
