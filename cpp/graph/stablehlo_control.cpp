#include "graph/stablehlo_statement.h"
#include "pjrt/foreign_function.h"

namespace torch_pjrt::graph {

using Statement = StableHloBuilder::Statement;

namespace {

std::vector<Type> types_of(OperandList operands) {
  std::vector<Type> types;
  for (const Operand& x : operands) types.push_back(x.type());
  return types;
}

}  // namespace

Operands StableHloBuilder::while_loop(OperandList init, const Body& condition, const Body& body) {
  constexpr std::string_view kName = "stablehlo.while";
  Statement::check(*this, kName, init);
  const std::vector<Type> types = types_of(init);
  Statement s(*this, "\"stablehlo.while\"(", types);
  s.operands(init).text(") (");
  s.region(kName, types, false, condition, {Type{ElementType::kPred, {}}}).text(", ");
  s.region(kName, types, false, body, types).text(")").signature(init);
  return s.end_all();
}

// The results' types, which stand before the regions, are known only when the first branch has
// been written: so that one is written first and moved.
Operands StableHloBuilder::branches(std::string_view name, std::string_view what, Operand selector,
                                    ListRef<Body> bodies) {
  std::string& text = state_->text;
  const size_t start = text.size();
  const std::vector<Type> types = Statement::write_region(*this, what, {}, false, bodies[0]);
  const std::string first = text.substr(start);
  text.resize(start);
  Statement s(*this, name, types);
  s.operand(selector).text(") (").text(first);
  for (const Body& body : bodies.subspan(1)) {
    s.text(", ").region(what, {}, false, body, types);
  }
  s.text(")").signature({selector});
  return s.end_all();
}

Operands StableHloBuilder::if_else(Operand predicate, const Body& on_true, const Body& on_false) {
  constexpr std::string_view kName = "stablehlo.if";
  Statement::check(*this, kName, predicate);
  if (!(predicate.type() == Type{ElementType::kPred, {}})) {
    fail(kName, "the predicate is no scalar i1", to_string(predicate.type()), "tensor<i1>");
  }
  return branches("\"stablehlo.if\"(", kName, predicate, {on_true, on_false});
}

Operands StableHloBuilder::switch_case(Operand index, ListRef<Body> bodies) {
  constexpr std::string_view kName = "stablehlo.case";
  Statement::check(*this, kName, index);
  if (!(index.type() == Type{ElementType::kS32, {}}) || bodies.empty()) {
    fail(kName, "the index is no scalar i32, or there is no branch", to_string(index.type()),
         "tensor<i32> and at least one branch");
  }
  return branches("\"stablehlo.case\"(", kName, index, bodies);
}

Operands StableHloBuilder::optimization_barrier(OperandList operands) {
  constexpr std::string_view kName = "stablehlo.optimization_barrier";
  Statement::check(*this, kName, operands);
  Statement s(*this, "\"stablehlo.optimization_barrier\"(", types_of(operands));
  s.operands(operands).text(")").signature(operands);
  return s.end_all();
}

Operands StableHloBuilder::custom_call(std::string_view target, OperandList operands,
                                       ListRef<Type> results, std::string_view attributes) {
  constexpr std::string_view kName = "stablehlo.custom_call";
  Statement::check(*this, kName, operands);
  Statement s(*this, "\"stablehlo.custom_call\"(", results);
  s.operands(operands).text(") {call_target_name = \"").text(target).text("\"");
  if (!attributes.empty()) s.text(", ").text(attributes);
  s.text("}").signature(operands);
  return s.end_all();
}

bool StableHloBuilder::calls_host_functions() const {
  return host_ && pjrt::calls_host_functions(*host_);
}

Operands StableHloBuilder::host_call(const pjrt::ForeignFunction& function, OperandList operands,
                                     ListRef<Type> results, Ints options, int64_t rank_by_columns) {
  constexpr std::string_view kName = "stablehlo.custom_call";
  constexpr int64_t kFfiVersion = 4;
  Statement::check(*this, kName, operands);
  if (!calls_host_functions()) {
    fail(kName, "the program is not for a device that calls functions of this process",
         function.name, "calls_host_functions()", "lower the operator to StableHLO");
  }
  pjrt::provide(*host_, function);
  Statement s(*this, "\"stablehlo.custom_call\"(", results);
  const auto layout = [&](const Type& type, int64_t rank_by_columns) {  // minor to major
    Dimensions order;
    for (int64_t i = type.rank(); i-- > 0;) order.push_back(i);
    if (type.rank() == rank_by_columns && rank_by_columns > 0) std::swap(order[0], order[1]);
    s.text("dense<");
    if (!order.empty()) s.list(order);
    s.text("> : tensor<").number(type.rank()).text("xindex>");
  };
  const auto layouts = [&](std::string_view name, ListRef<Type> types, int64_t rank_by_columns) {
    s.text(", ").text(name).text(" = [");
    for (size_t i = 0; i < types.size(); ++i) {
      if (i > 0) s.text(", ");
      layout(types[i], rank_by_columns);
    }
    s.text("]");
  };
  s.operands(operands).text(") {call_target_name = \"").text(function.name);
  s.text("\", api_version = ").number(kFfiVersion).text(" : i32");
  s.text(", backend_config = {options = ").array(options).text("}");
  layouts("operand_layouts", types_of(operands), 0);
  layouts("result_layouts", results, rank_by_columns);
  s.text("}").signature(operands);
  return s.end_all();
}

}  // namespace torch_pjrt::graph
