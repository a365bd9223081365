#include <limits>

#include "graph/held_element.h"
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

namespace {

// A signed 32-bit integer for each element, ordered as torch.sort orders them: a NaN is the
// greatest, all NaNs are equal, and so are the zeros.
Operand order_key(StableHloBuilder& b, Operand x) {
  if (!pjrt::is_floating(x.element())) return b.convert(x, ElementType::kS64);
  const Operand wide = b.convert(x, ElementType::kF32);
  const Operand bits = b.bitcast_convert(wide, ElementType::kS32);
  const Operand flipped =
      b.bit_xor(bits, b.shift_right_logical(b.shift_right_arithmetic(bits, 31), 1));
  const Operand numbers = b.select(b.equal(wide, 0), 0, flipped);
  const Operand key = b.select(b.is_nan(wide), int32_t{0x7FFFFFFF}, numbers);
  return b.convert(key, ElementType::kS64);
}

}  // namespace

// XLA CPU calls a comparator through a pointer, but compares one array of integers inline. So key
// and index are packed into one integer where they fit.
std::pair<Operand, Operand> StableHloBuilder::sort_with_indices(Operand x, int64_t dim,
                                                                bool descending,
                                                                ElementType index) {
  Statement::check(*this, "sort_with_indices", x);
  dim = normalized_dim(dim, x.rank(), "sort_with_indices");
  const int64_t size = x.dimension(dim);
  index = held(index);
  const bool has_wide = held(ElementType::kS64) == ElementType::kS64;
  if (has_wide && pjrt::bit_width(x.element()) <= 32 && !pjrt::is_complex(x.element()) &&
      size <= INT32_MAX) {
    Operand key = order_key(*this, x);
    if (descending) key = bit_not(key);
    const Operand packed =
        bit_or(shift_left(key, 32), iota({ElementType::kS64, x.dimensions()}, dim));
    const Operand sorted =
        sort({packed}, dim, false, [](StableHloBuilder& b, OperandList lhs, OperandList rhs) {
          return b.less(lhs[0], rhs[0]);
        })[0];
    const Operand places = bit_and(sorted, int64_t{0xFFFFFFFF});
    return {gather_elements(x, places, dim), convert(places, index)};
  }
  const bool floating = pjrt::is_floating(x.element());
  const Operands sorted =
      sort({x, iota({held(ElementType::kS64), x.dimensions()}, dim)}, dim, true,
           [=](StableHloBuilder& b, OperandList lhs, OperandList rhs) {
             const Operand low = descending ? rhs[0] : lhs[0];
             const Operand high = descending ? lhs[0] : rhs[0];
             const Operand less = b.less(low, high);
             if (!floating) return less;
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
  // The operation orders by bits, and a NaN may have the sign of a least one.
  if (pjrt::is_floating(x.element())) {
    x = select(is_nan(x), std::numeric_limits<double>::quiet_NaN(), x);
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
