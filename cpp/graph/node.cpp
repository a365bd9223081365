#include "graph/node.h"

#include <algorithm>
#include <new>
#include <utility>

namespace torch_pjrt::graph {

uint64_t next_visit() noexcept {
  static uint64_t visit = 0;
  return ++visit;
}

// A node, its outputs and its operands live in one allocation.
Node* Node::allocate(size_t operand_count, size_t output_count) {
  static_assert(alignof(Node) >= alignof(Output) && alignof(Output) >= alignof(Value));
  static_assert(sizeof(Node) % alignof(Output) == 0 && sizeof(Output) % alignof(Value) == 0);
  void* memory =
      ::operator new(sizeof(Node) + output_count * sizeof(Output) + operand_count * sizeof(Value));
  Node* node = new (memory) Node();
  node->outputs_ = reinterpret_cast<Output*>(static_cast<char*>(memory) + sizeof(Node));
  node->operands_ = reinterpret_cast<Value*>(node->outputs_ + output_count);
  for (size_t i = 0; i < output_count; ++i) new (node->outputs_ + i) Output();
  for (size_t i = 0; i < operand_count; ++i) new (node->operands_ + i) Value();
  node->output_count_ = static_cast<uint32_t>(output_count);
  node->operand_count_ = static_cast<uint32_t>(operand_count);
  return node;
}

void Node::destroy(Node* node) noexcept {
  std::destroy_n(node->operands_, node->operand_count_);
  std::destroy_n(node->outputs_, node->output_count_);
  node->~Node();
  ::operator delete(static_cast<void*>(node));
}

NodePtr Node::operation(const Operator& op, std::span<const Value> operands, Attributes attributes,
                        std::span<const Type> types) {
  Node* node = allocate(operands.size(), types.size());
  NodePtr owner(node);
  node->op_ = &op;
  node->attributes_ = std::move(attributes);
  for (size_t i = 0; i < types.size(); ++i) node->outputs_[i].type = types[i];
  std::copy(operands.begin(), operands.end(), node->operands_);
  return owner;
}

NodePtr Node::number(HostNumber number, ElementType element) {
  Node* node = allocate(0, 1);
  NodePtr owner(node);
  node->number_ = number;
  node->outputs_[0].type.element = element;
  return owner;
}

NodePtr Node::data(SharedBufferPtr buffer, Type type) {
  Node* node = allocate(0, 1);
  NodePtr owner(node);
  node->is_data_.store(true, std::memory_order_relaxed);
  node->outputs_[0].type = std::move(type);
  node->outputs_[0].buffer = std::move(buffer);
  return owner;
}

void Node::become_data(std::vector<Value>& released) {
  is_data_.store(true, std::memory_order_relaxed);
  for (Value& operand : operands()) released.push_back(std::move(operand));
}

void Node::release_reference() noexcept {
  if (count_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // A long chain of nodes would overflow the stack if each destroyed its operands in turn. They are
  // linked through their scratch, which nobody uses any more.
  static_assert(sizeof(visit) >= sizeof(Node*));
  thread_local Node* last = nullptr;
  thread_local bool is_destroying = false;
  visit = reinterpret_cast<uintptr_t>(std::exchange(last, this));
  if (is_destroying) return;
  is_destroying = true;
  while (last) {
    Node* const next = last;
    last = reinterpret_cast<Node*>(static_cast<uintptr_t>(next->visit));
    destroy(next);
  }
  is_destroying = false;
}

}  // namespace torch_pjrt::graph
