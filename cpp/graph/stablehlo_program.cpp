#include <stdexcept>

#include "graph/stablehlo_statement.h"

namespace torch_pjrt::graph {

const Type& Operand::type() const {
  if (!builder) fail("operand", "it is empty", "Operand{}", "a value of a builder");
  return builder->type_of(*this);
}
ElementType Operand::element() const { return type().element; }
const Dimensions& Operand::dimensions() const { return type().dimensions; }
int64_t Operand::rank() const { return type().rank(); }
int64_t Operand::dimension(int64_t index) const {
  const Dimensions& all = type().dimensions;
  return all[static_cast<size_t>(normalized_dim(index, type().rank(), "dimension"))];
}

StableHloBuilder::StableHloBuilder(size_t expected_bytes) : state_(std::make_unique<State>()) {
  state_->text.reserve(expected_bytes);
  state_->location = "\n";
}

StableHloBuilder::~StableHloBuilder() = default;

const Type& StableHloBuilder::type_of(Operand operand) const {
  return *state_->value(operand.id).type;
}

Operand StableHloBuilder::parameter(const Type& type, std::string_view attributes) {
  if (state_->scopes.size() != 1) {
    fail("parameter", "it is declared inside a region", {}, {}, "declare parameters first");
  }
  const Operand x{state_->new_value(type), this};
  std::string& out = state_->parameters;
  if (!out.empty()) out.append(", ");
  out.push_back('%');
  Statement::append(out, static_cast<int64_t>(x.id));
  out.append(": ");
  Statement::append(out, type);
  if (!attributes.empty()) out.append(" {").append(attributes).push_back('}');
  return x;
}

namespace {

std::string escaped(std::string_view name) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\') {
      out.append({'\\', kHex[byte >> 4], kHex[byte & 15]});
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace

void StableHloBuilder::set_location(std::string_view name) {
  std::string& location = state_->location;
  if (name.empty()) {
    location = "\n";
    return;
  }
  const auto [entry, fresh] =
      state_->location_index.emplace(std::string(name), state_->location_names.size());
  if (fresh) state_->location_names.push_back(entry->first);
  location = " loc(#l";
  Statement::append(location, static_cast<int64_t>(entry->second));
  location.append(")\n");
}

std::string StableHloBuilder::finish(OperandList results, std::string_view module_attributes,
                                     ListRef<std::string_view> result_attributes) {
  Statement::check(*this, "finish", results);
  if (!result_attributes.empty() && result_attributes.size() != results.size()) {
    fail("finish", "the attributes do not match the results",
         std::to_string(result_attributes.size()), std::to_string(results.size()));
  }
  std::string head = "module @program ";
  if (!module_attributes.empty()) {
    head.append("attributes {").append(module_attributes).append("} ");
  }
  head.append("{\nfunc.func public @main(").append(state_->parameters).append(") -> (");
  for (size_t i = 0; i < results.size(); ++i) {
    if (i) head.append(", ");
    Statement::append(head, type_of(results[i]));
    if (!result_attributes.empty() && !result_attributes[i].empty()) {
      head.append(" {").append(result_attributes[i]).append("}");
    }
  }
  head.append(") {\n");

  std::string program = std::move(state_->text);
  program.append("return");
  for (size_t i = 0; i < results.size(); ++i) {
    program.append(i ? ", %" : " %");
    Statement::append(program, static_cast<int64_t>(results[i].id));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    program.append(i ? ", " : " : ");
    Statement::append(program, type_of(results[i]));
  }
  program.append("\n}\n}\n");
  for (size_t i = 0; i < state_->location_names.size(); ++i) {
    program.append("#l");
    Statement::append(program, static_cast<int64_t>(i));
    program.append(" = loc(\"").append(escaped(state_->location_names[i])).append("\")\n");
  }
  // Last, and moved within its memory: a program of megabytes is not written twice.
  program.insert(0, head);
  return program;
}

Dimensions all_dims(Operand x) {
  Dimensions dims;
  for (int64_t i = 0; i < x.rank(); ++i) dims.push_back(i);
  return dims;
}

int64_t normalized_dim(int64_t dim, int64_t rank, std::string_view what) {
  if (dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
  fail(what, "the dimension is out of range", std::to_string(dim),
       "a dimension of an array of rank " + std::to_string(rank));
}

}  // namespace torch_pjrt::graph
