#include <algorithm>

#include "graph/held_element.h"
#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

namespace {

// Sorted, in range, without repeats.
Dimensions reduced_dims(std::string_view what, Operand x, Ints dims) {
  Dimensions sorted;
  for (int64_t d : dims) sorted.push_back(normalized_dim(d, x.rank(), what));
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    fail(what, "a dimension is reduced twice", to_string(dims), "distinct dimensions");
  }
  return sorted;
}

Dimensions remaining(const Dimensions& dimensions, const Dimensions& removed, bool keepdim) {
  Dimensions rest;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const bool gone =
        std::find(removed.begin(), removed.end(), static_cast<int64_t>(i)) != removed.end();
    if (!gone) {
      rest.push_back(dimensions[i]);
    } else if (keepdim) {
      rest.push_back(1);
    }
  }
  return rest;
}

}  // namespace

Operand StableHloBuilder::reduce(Operand x, Reducer reducer, Ints dims, bool keepdim) {
  Statement::check(*this, "stablehlo.reduce", x);
  return reduce(x, identity(reducer, x.element()), reducer, dims, keepdim);
}

Operand StableHloBuilder::reduce(Operand x, Operand init, Reducer reducer, Ints dims,
                                 bool keepdim) {
  constexpr std::string_view kName = "stablehlo.reduce";
  Statement::check(*this, kName, x);
  Statement::check(*this, kName, init);
  check_init(kName, init, x);
  if (dims.empty()) return x;
  const Dimensions reduced = reduced_dims(kName, x, dims);
  const Type type{x.element(), remaining(x.dimensions(), reduced, false)};
  Statement s(*this, "stablehlo.reduce(", type);
  s.operand(x).text(" init: ").operand(init).text(") applies ").text(operation_name(reducer));
  s.text(" across dimensions = ").list(reduced).signature({x, init});
  const Operand result = s.end();
  return keepdim ? reshape(result, remaining(x.dimensions(), reduced, true)) : result;
}

Operands StableHloBuilder::reduce(OperandList inputs, OperandList inits, Ints dims,
                                  const ReducerBody& body, bool keepdim) {
  constexpr std::string_view kName = "stablehlo.reduce";
  Statement::check(*this, kName, inputs);
  Statement::check(*this, kName, inits);
  if (inputs.empty() || inputs.size() != inits.size()) {
    fail(kName, "inputs and initial values do not match",
         std::to_string(inputs.size()) + " and " + std::to_string(inits.size()), "as many, not 0");
  }
  const Dimensions reduced = reduced_dims(kName, inputs[0], dims);
  std::vector<Type> results, scalars;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dimensions() != inputs[0].dimensions()) {
      fail(kName, "input shapes differ",
           to_string(inputs[0].type()) + " and " + to_string(inputs[i].type()), "equal shapes");
    }
    check_init(kName, inits[i], inputs[i]);
    results.push_back({inputs[i].element(), remaining(inputs[i].dimensions(), reduced, false)});
    scalars.push_back({inputs[i].element(), {}});
  }
  std::vector<Type> arguments = scalars;
  arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  Operands operands(inputs.begin(), inputs.end());
  operands.insert(operands.end(), inits.begin(), inits.end());
  const size_t count = inputs.size();

  Statement s(*this, "\"stablehlo.reduce\"(", results);
  s.operands(operands).text(") <{dimensions = ").array(reduced).text("}> (");
  s.region(
      kName, arguments, true,
      [&](StableHloBuilder& builder, OperandList all) {
        return body(builder, all.first(count), all.subspan(count));
      },
      scalars);
  s.text(")").signature(operands);
  Operands reductions = s.end_all();
  if (keepdim) {
    for (size_t i = 0; i < count; ++i) {
      reductions[i] = reshape(reductions[i], remaining(inputs[i].dimensions(), reduced, true));
    }
  }
  return reductions;
}

namespace {

// Two plain reductions, which XLA vectorises; a reduction over (value, index) pairs it does not.
std::pair<Operand, Operand> arg_extreme(StableHloBuilder& b, Operand x, int64_t dim,
                                        ElementType index, bool keepdim, Reducer reducer) {
  Statement::check(b, "argmax", x);
  dim = normalized_dim(dim, x.rank(), "argmax");
  const Operand extreme = b.reduce(x, reducer, {dim}, true);
  Operand is_extreme = b.equal(x, b.broadcast_to(extreme, x.dimensions()));
  if (pjrt::is_floating(x.element())) is_extreme = b.bit_or(is_extreme, b.is_nan(x));
  const int64_t size = x.dimension(dim);
  const bool narrow = size <= INT32_MAX;
  const Type counts{narrow ? ElementType::kS32 : ElementType::kS64, x.dimensions()};
  const Operand places = b.select(is_extreme, b.iota(counts, dim), size);
  const Operand first = b.reduce(places, Reducer::kMinimum, {dim}, keepdim);
  Operand value = extreme;
  if (!keepdim) value = b.reshape(extreme, first.dimensions());
  return {value, b.convert(first, held(index))};
}

}  // namespace

std::pair<Operand, Operand> StableHloBuilder::argmax(Operand x, int64_t dim, ElementType index,
                                                     bool keepdim) {
  return arg_extreme(*this, x, dim, index, keepdim, Reducer::kMaximum);
}

std::pair<Operand, Operand> StableHloBuilder::argmin(Operand x, int64_t dim, ElementType index,
                                                     bool keepdim) {
  return arg_extreme(*this, x, dim, index, keepdim, Reducer::kMinimum);
}

Operand StableHloBuilder::softmax(Operand x, int64_t dim) {
  const Operand greatest = reduce(x, Reducer::kMaximum, {dim}, true);
  const Operand powers = exponential(subtract(x, broadcast_to(greatest, x.dimensions())));
  const Operand sum = reduce(powers, Reducer::kAdd, {dim}, true);
  return divide(powers, broadcast_to(sum, x.dimensions()));
}

Operand StableHloBuilder::log_softmax(Operand x, int64_t dim) {
  const Operand greatest = reduce(x, Reducer::kMaximum, {dim}, true);
  const Operand shifted = subtract(x, broadcast_to(greatest, x.dimensions()));
  const Operand sum = reduce(exponential(shifted), Reducer::kAdd, {dim}, true);
  return subtract(shifted, broadcast_to(log(sum), x.dimensions()));
}

}  // namespace torch_pjrt::graph
