#pragma once

#include <vector>

#include "graph/node.h"
#include "graph/stablehlo_builder.h"

namespace torch_pjrt::graph {

// What an operator sees while it is written as StableHLO: its operands, its attributes and the
// types that its results must have.
class Emission {
 public:
  Emission(StableHloBuilder& builder, Node& node, std::span<const Operand> operands,
           std::span<Operand> results) noexcept
      : attributes(node.attributes().words()),
        builder_(builder),
        node_(node),
        operands_(operands),
        results_(results) {}

  StableHloBuilder& builder() noexcept { return builder_; }

  std::string_view operator_name() const noexcept { return node_.op().name; }
  size_t operand_count() const noexcept { return operands_.size(); }
  Operand operand(size_t i) const noexcept { return operands_[i]; }
  std::span<const Operand> operands() const noexcept { return operands_; }

  size_t result_count() const noexcept { return results_.size(); }
  const Type& result_type(size_t i = 0) const noexcept { return node_.outputs()[i].type; }

  // Sets result i; throws std::logic_error when its type is not the recorded one.
  void result(size_t i, Operand operand);
  void result(Operand operand) { result(0, operand); }

  AttributeReader attributes;

 private:
  StableHloBuilder& builder_;
  Node& node_;
  std::span<const Operand> operands_;
  std::span<Operand> results_;
};

}  // namespace torch_pjrt::graph
