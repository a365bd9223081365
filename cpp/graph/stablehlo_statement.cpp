#include "graph/stablehlo_statement.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace torch_pjrt::graph {

void fail(std::string_view what, std::string_view problem, std::string_view got,
          std::string_view expected, std::string_view remedy) {
  std::string message(what);
  message.append(": ").append(problem);
  if (!got.empty()) message.append("; got ").append(got);
  if (!expected.empty()) message.append("; expected ").append(expected);
  if (!remedy.empty()) message.append("; ").append(remedy);
  throw std::invalid_argument(message);
}

std::string to_string(Ints values) {
  std::string text = "[";
  for (int64_t v : values) {
    if (text.size() > 1) text.append(", ");
    text.append(std::to_string(v));
  }
  return text + "]";
}

bool contains(Ints list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void check_init(std::string_view what, Operand init, Operand x) {
  if (init.rank() == 0 && init.element() == x.element()) return;
  fail(what, "the initial value does not fit", to_string(init.type()),
       to_string(Type{x.element(), {}}));
}

std::string_view operation_name(Reducer reducer) {
  switch (reducer) {
    case Reducer::kAdd:
      return "stablehlo.add";
    case Reducer::kMultiply:
      return "stablehlo.multiply";
    case Reducer::kMaximum:
      return "stablehlo.maximum";
    case Reducer::kMinimum:
      return "stablehlo.minimum";
    case Reducer::kAnd:
      return "stablehlo.and";
    case Reducer::kOr:
      return "stablehlo.or";
    case Reducer::kOverwrite:
      break;
  }
  fail("reducer", "overwriting combines nothing", {}, {}, "use it with scatter alone");
}

using Statement = StableHloBuilder::Statement;

Statement::Statement(StableHloBuilder& builder, std::string_view name, ListRef<Type> results)
    : builder_(builder),
      first_(builder.state_->value_count),
      count_(static_cast<uint32_t>(results.size())) {
  for (size_t i = 0; i < count_; ++i) {
    if (i) out().append(", ");
    out().push_back('%');
    append(out(), builder.state_->new_value(results[i]));
  }
  if (count_) out().append(" = ");
  out().append(name);
  ++builder.statements_;
}

Statement& Statement::operands(OperandList list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out().append(", ");
    operand(list[i]);
  }
  return *this;
}

Statement& Statement::types(OperandList list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out().append(", ");
    type(*builder_.state_->value(list[i].id).type);
  }
  return *this;
}

Statement& Statement::list(Ints values) {
  out().push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out().append(", ");
    append(out(), values[i]);
  }
  out().push_back(']');
  return *this;
}

Statement& Statement::array(Ints values) {
  out().append(values.empty() ? "array<i64" : "array<i64: ");
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out().append(", ");
    append(out(), values[i]);
  }
  out().push_back('>');
  return *this;
}

Statement& Statement::signature(OperandList operands) {
  text(" : (").types(operands).text(") -> ");
  if (count_ != 1) out().push_back('(');
  for (uint32_t i = 0; i < count_; ++i) {
    if (i) out().append(", ");
    type(*builder_.state_->value(first_ + i).type);
  }
  if (count_ != 1) out().push_back(')');
  return *this;
}

std::vector<Type> Statement::write_region(StableHloBuilder& builder, std::string_view what,
                                          ListRef<Type> arguments, bool isolated,
                                          const Body& body) {
  State& state = *builder.state_;
  std::string& out = state.text;
  Scope& scope = state.scopes.emplace_back();
  scope.id = state.scope_count++;
  scope.isolated = isolated;
  Operands values;
  out.append(arguments.empty() ? "{\n" : "{\n^bb0(");
  for (const Type& argument : arguments) {
    out.append(values.empty() ? "%" : ", %");
    values.push_back({state.new_value(argument), &builder});
    append(out, static_cast<int64_t>(values.back().id));
    out.append(": ");
    append(out, argument);
  }
  if (!arguments.empty()) out.append("):\n");
  const Operands results = body(builder, values);
  check(builder, what, results);
  out.append("stablehlo.return");
  std::vector<Type> types;
  for (const Operand& result : results) {
    out.append(types.empty() ? " %" : ", %");
    append(out, static_cast<int64_t>(result.id));
    types.push_back(result.type());
  }
  for (size_t i = 0; i < types.size(); ++i) {
    out.append(i ? ", " : " : ");
    append(out, types[i]);
  }
  out.append("\n}");
  state.scopes.pop_back();
  return types;
}

Statement& Statement::region(std::string_view what, ListRef<Type> arguments, bool isolated,
                             const Body& body, ListRef<Type> expected) {
  const std::vector<Type> types = write_region(builder_, what, arguments, isolated, body);
  if (types.size() != expected.size()) {
    fail(what, "the body returns the wrong number of values", std::to_string(types.size()),
         std::to_string(expected.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == expected[i]) continue;
    fail(what, "the body returns a value of the wrong type",
         graph::to_string(types[i]) + " as value " + std::to_string(i),
         graph::to_string(expected[i]), "convert or reshape it in the body");
  }
  return *this;
}

Statement& Statement::reducer_region(Reducer reducer, ElementType element) {
  const Type scalar{element, {}};
  return region("reducer", {scalar, scalar}, true,
                [&](StableHloBuilder& builder, OperandList arguments) -> Operands {
                  if (reducer == Reducer::kOverwrite) return {arguments[1]};
                  Statement s(builder, operation_name(reducer), scalar);
                  s.text(" ").operands(arguments).text(" : ").type(scalar);
                  return {s.end()};
                },
                {scalar});
}

Operand Statement::end() {
  out().append(builder_.state_->location);
  return {first_, &builder_};
}

Operands Statement::end_all() {
  out().append(builder_.state_->location);
  Operands results;
  results.reserve(count_);
  for (uint32_t i = 0; i < count_; ++i) results.push_back({first_ + i, &builder_});
  return results;
}

void Statement::check(const StableHloBuilder& builder, std::string_view what, Operand x) {
  if (!x.builder) fail(what, "an operand is empty", "Operand{}", "a value of this builder");
  if (x.builder != &builder) {
    fail(what, "an operand belongs to another builder", {}, {},
         "pass it as a parameter of this program");
  }
  State& state = *builder.state_;
  const uint32_t scope = state.value(x.id).scope;
  for (size_t i = state.scopes.size(); i-- > 0;) {
    if (state.scopes[i].id == scope) return;
    if (state.scopes[i].isolated) {
      for (size_t outer = 0; outer < i; ++outer) {
        if (state.scopes[outer].id == scope) {
          fail(what, "the body of a reduction, scatter or sort uses a value from outside",
               "%" + std::to_string(x.id), "its arguments and constants made inside it");
        }
      }
      break;
    }
  }
  fail(what, "an operand was made in a region that has ended", "%" + std::to_string(x.id),
       "a value of this region or of one around it", "return it from the region");
}

void Statement::append(std::string& out, const Type& type) {
  out.append("tensor<");
  for (int64_t d : type.dimensions) {
    append(out, d);
    out.push_back('x');
  }
  out.append(pjrt::name(type.element)).push_back('>');
}

size_t StableHloBuilder::Scope::ConstantHash::operator()(const ConstantKey& key) const noexcept {
  uint64_t hash = static_cast<uint64_t>(key.type.element) * 0x9E3779B97F4A7C15u;
  const auto mix = [&hash](uint64_t value) {
    hash = (std::rotl(hash, 23) ^ value) * 0x9E3779B97F4A7C15u;
  };
  for (int64_t d : key.type.dimensions) mix(static_cast<uint64_t>(d));
  mix(static_cast<uint64_t>(key.kind));
  mix(key.low);
  mix(key.high);
  return hash ^ (hash >> 29);
}

}  // namespace torch_pjrt::graph
