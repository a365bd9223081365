#include "graph/trace.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/metrics.h"
#include "graph/emission.h"

namespace torch_pjrt::graph {
namespace {

using Kind = HostNumber::Kind;

// An s32 would lose the upper half of an integer that becomes a floating number anyway.
Kind kind_of(Node& node, NumberWidth width) noexcept {
  const Kind kind = node.number().kind;
  const ElementType element = node.outputs()[0].type.element;
  const bool is_real = pjrt::is_floating(element) || pjrt::is_complex(element);
  return width == NumberWidth::k32 && kind == Kind::kInteger && is_real ? Kind::kReal : kind;
}

// Visits what `root` depends on, operands first, and calls `enter` when it first sees a node and
// `leave` when its operands are done. With a stack of its own: a graph may be deeper than the
// thread's.
template <typename Enter, typename Leave>
void walk(Node* root, uint64_t visit, Enter enter, Leave leave) {
  struct Frame {
    Node* node;
    size_t next;
  };
  if (root->visit == visit) return;
  std::vector<Frame> stack;
  auto push = [&](Node* node) {
    node->visit = visit;
    enter(node);
    stack.push_back({node, 0});
  };
  push(root);
  while (!stack.empty()) {
    Frame& frame = stack.back();
    Node* node = frame.node;
    if (node->is_operation() && frame.next < node->operands().size()) {
      Node* operand = node->operands()[frame.next++].node.get();
      if (operand->visit != visit) push(operand);
      continue;
    }
    stack.pop_back();
    leave(node);
  }
}

uint64_t hash_of(const Type& type) noexcept {
  uint64_t h = static_cast<uint64_t>(type.element) + 0x51;
  for (int64_t d : type.dimensions) h = mix(h, static_cast<uint64_t>(d));
  return h;
}

// A hash of what computes an operation, given those of its operands; of data only the type counts.
uint64_t structure_of(Node& node) noexcept {
  if (node.is_data()) return 0;
  uint64_t h = node.is_operation() ? node.op().id : 0x17;
  for (const Node::Output& output : node.outputs()) h = mix(h, hash_of(output.type));
  if (node.is_number()) return h;
  for (int64_t word : node.attributes().words()) h = mix(h, static_cast<uint64_t>(word));
  for (const Value& operand : node.operands()) {
    h = mix(h, operand.node->is_data() ? hash_of(operand.type())
                                       : operand.node->structure + operand.index);
  }
  return h;
}

// Room for a program's text. Memory that is not written costs nothing; moving what is does.
constexpr size_t kBytesPerOperation = 512, kBytesPerPlace = 256, kFewestBytes = 1024;

// The place of an output of data that the trace has not read so far.
constexpr uint32_t kNoSlot = UINT32_MAX;

SharedBufferPtr gone() {
  return SharedBufferPtr(new SharedBuffer(std::make_shared<const Failure>(
      Failure{pjrt::ErrorCode::kInternal,
              "a value that is read was not computed; this is a defect of torch-pjrt, please "
              "report it"})));
}

}  // namespace

void Trace::hash(uint64_t word) noexcept {
  key_.low = mix(key_.low, word);
  key_.high = mix(key_.high + 0x632be59bd9b4e019ull, word * 0xff51afd7ed558ccdull + key_.low);
}

void Trace::hash(const Type& type) noexcept {
  hash(static_cast<uint64_t>(type.element) | static_cast<uint64_t>(type.rank()) << 8);
  for (int64_t d : type.dimensions) hash(static_cast<uint64_t>(d));
}

Trace::Trace(std::vector<Root> roots, NumberWidth width, bool donate, NumberSharing& sharing)
    : width_(width) {
  static base::Timer& hash_seconds = base::timer("hash.seconds");
  const base::ScopedTimer timer(hash_seconds);
  // Two threads of one backward pass record in varying order: the structure decides, not time. It
  // is taken anew each time, since what was recorded on a pending value may now read data.
  if (roots.size() > 1) {  // one alone needs no order
    const uint64_t structures = next_visit();
    for (const Root& root : roots) {
      walk(
          root.value.node.get(), structures, [](Node*) {},
          [](Node* node) { node->structure = structure_of(*node); });
    }
    std::stable_sort(roots.begin(), roots.end(), [](const Root& a, const Root& b) {
      const uint64_t ha = a.value.node->structure, hb = b.value.node->structure;
      return ha != hb ? ha < hb : a.value.index < b.value.index;
    });
  }
  visit_ = next_visit();
  hash(static_cast<uint64_t>(width));
  visit_in_order(roots);
  // Clones share a value: it is computed once. `roots` and `roots_` hold a reference each, and
  // every cell one of its own.
  for (Root& root : roots) {
    Node& node = *root.value.node;
    Node::Output& output = node.outputs()[root.value.index];
    node.uses += 2;
    if (output.root_visit == visit_) continue;
    output.root_visit = visit_;
    hash(uint64_t{node.position} << 32 | root.value.index);
    roots_.push_back(root.value);
    homes_.push_back(root.home);
    ++node.uses;
  }
  // A node of several outputs becomes device data as a whole: whoever still holds one of its other
  // outputs needs it.
  for (const Root& root : roots) {
    Node& node = *root.value.node;
    if (node.outputs().size() == 1 || node.reference_count() <= node.uses) continue;
    for (uint32_t i = 0; i < node.outputs().size(); ++i) {
      if (node.outputs()[i].root_visit == visit_) continue;
      node.outputs()[i].root_visit = visit_;
      hash(uint64_t{node.position} << 32 | i);
      roots_.push_back(Value{root.value.node, i});
      homes_.push_back(0);
      ++node.uses;
    }
  }
  find_failures();
  find_donations(donate);
  share_numbers(sharing);
}

// Visits the roots, which are sorted by structure, and leaves them in the order of the visits.
// Roots of one structure that read different values are told apart by the places of what they read.
// Roots with a structure of their own come first, so that there are such places.
void Trace::visit_in_order(std::vector<Root>& roots) {
  const auto twins = [](const Root& a, const Root& b) {
    return a.value.node->structure == b.value.node->structure && a.value.index == b.value.index;
  };
  const auto runs = [&](auto use) {
    for (auto first = roots.begin(); first != roots.end();) {
      const auto last =
          std::find_if(first, roots.end(), [&](const Root& root) { return !twins(root, *first); });
      const bool one_node = std::all_of(
          first, last, [&](const Root& root) { return root.value.node == first->value.node; });
      use(first, last, one_node);
      first = last;
    }
  };
  bool has_twins = false;
  runs([&](auto first, auto, bool one_node) {
    if (one_node) visit(first->value.node.get());
    has_twins = has_twins || !one_node;
  });
  if (!has_twins) return;
  std::vector<Root> ordered;
  ordered.reserve(roots.size());
  runs([&](auto first, auto last, bool one_node) {
    if (one_node) ordered.insert(ordered.end(), first, last);
  });
  runs([&](auto first, auto last, bool one_node) {
    if (one_node) return;
    std::vector<std::pair<Places, Root>> run;
    for (auto root = first; root != last; ++root)
      run.emplace_back(places_read_by(root->value), *root);
    std::stable_sort(run.begin(), run.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [places, root] : run) {
      visit(root.value.node.get());
      ordered.push_back(std::move(root));
    }
  });
  roots = std::move(ordered);
}

// The places of what a root reads, depth first. What has none yet is numbered as the root meets it,
// so that f(a, a) differs from f(a, b). Only the beginning is looked at: it nearly always tells.
Trace::Places Trace::places_read_by(const Value& root) const {
  constexpr size_t kMostSteps = 256;
  const uint64_t met = next_visit();
  uint32_t next = 0;
  Places places;
  std::vector<Value> stack{root};
  for (size_t step = 0; !stack.empty() && step < kMostSteps; ++step) {
    const Value value = std::move(stack.back());
    stack.pop_back();
    Node& node = *value.node;
    if (node.visit == visit_) {
      const uint32_t slot = node.outputs()[value.index].slot;  // of data
      places.push_back(!node.is_data() ? node.position : slot == kNoSlot ? kNoSlot : slot << 2 | 1);
      continue;
    }
    const bool is_new = node.visit != met;
    if (is_new) {
      node.visit = met;
      node.position = next++;
    }
    if (is_new && node.is_operation()) {
      const auto operands = node.operands();
      stack.insert(stack.end(), operands.rbegin(), operands.rend());
    } else {
      places.push_back(~(node.position << 16 | value.index));
    }
  }
  return places;
}

void Trace::visit(Node* root) {
  auto enter = [&](Node* node) { node->uses = 0; };
  walk(root, visit_, enter, [&](Node* node) {
    if (node->is_operation()) {
      node->position = static_cast<uint32_t>(operations_.size() << 2);
      operations_.push_back(node);
      // By address: operators of one name may be written differently.
      hash(reinterpret_cast<uint64_t>(&node->op()));
      hash(node->attributes().words().size() | uint64_t{node->outputs().size()} << 16 |
           uint64_t{node->operands().size()} << 40);
      for (int64_t word : node->attributes().words()) hash(static_cast<uint64_t>(word));
      for (const Node::Output& output : node->outputs()) hash(output.type);
      for (const Value& operand : node->operands()) {
        ++operand.node->uses;
        if (operand.node->is_data()) {
          hash(uint64_t{leaf(operand) << 2 | 1} << 32);
        } else {
          hash(uint64_t{operand.node->position} << 32 | operand.index);
        }
      }
    } else if (node->is_number()) {
      node->position = static_cast<uint32_t>(numbers_.size() << 2 | 2);
      numbers_.push_back(node);
      hash(static_cast<uint64_t>(kind_of(*node, width_)) << 8 | 0x11);
      hash(node->outputs()[0].type);
    } else {
      for (Node::Output& output : node->outputs()) output.slot = kNoSlot;
    }
  });
}

// The place among the leaves of an output of a data node; only outputs that are read have one.
uint32_t Trace::leaf(const Value& value) {
  Node::Output& output = value.node->outputs()[value.index];
  if (output.slot == kNoSlot) {
    output.slot = static_cast<uint32_t>(leaves_.size());
    if (!output.buffer) output.buffer = gone();
    leaves_.push_back({output.buffer, output.type, false});
    data_.push_back(value.node.get());
    hash(0x12);
    hash(output.type);
  }
  return output.slot;
}

void Trace::find_failures() {
  failures_.resize(roots_.size());
  if (std::none_of(leaves_.begin(), leaves_.end(),
                   [](const Leaf& leaf) { return leaf.buffer->failure != nullptr; })) {
    return;
  }
  std::vector<FailurePtr> by_operation(operations_.size());
  auto failure_of = [&](const Value& value) -> FailurePtr {
    if (value.node->is_data())
      return leaves_[value.node->outputs()[value.index].slot].buffer->failure;
    return value.node->is_operation() ? by_operation[value.node->position >> 2] : nullptr;
  };
  for (size_t i = 0; i < operations_.size(); ++i) {
    for (const Value& operand : operations_[i]->operands()) {
      if (!by_operation[i]) by_operation[i] = failure_of(operand);
    }
  }
  for (size_t i = 0; i < roots_.size(); ++i) {
    failures_[i] = failure_of(roots_[i]);
    has_failures_ = has_failures_ || failures_[i];
  }
}

void Trace::find_donations(bool donate) {
  // A node that something outside the trace still holds may be recorded on later, and would then
  // read the inputs again; not so a root, which becomes data.
  auto held_elsewhere = [](const Node* node) { return node->reference_count() > node->uses; };
  if (!donate || has_failures_) return;
  auto is_root = [&](Node* node) {
    const auto outputs = node->outputs();
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](const Node::Output& output) { return output.root_visit == visit_; });
  };
  if (std::any_of(operations_.begin(), operations_.end(),
                  [&](Node* node) { return held_elsewhere(node) && !is_root(node); })) {
    return;
  }
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (leaves_[i].buffer->is_lent) continue;
    // One reference by the node, one by the leaf.
    if (held_elsewhere(data_[i]) || leaves_[i].buffer->reference_count() != 2) continue;
    leaves_[i].donated = true;
    hash(0x13 + (uint64_t{i} << 8));
  }
  pair_donations();
}

// A value that is written in place goes where the old one was. Left to itself, XLA pairs donated
// buffers and results by shape alone, and copies wherever a result is due before the last reader
// of the buffer that it was given.
void Trace::pair_donations() {
  std::unordered_map<uint64_t, Leaf*> by_id;
  for (Leaf& leaf : leaves_) {
    if (leaf.donated) by_id.emplace(leaf.buffer->id(), &leaf);
  }
  for (size_t i = 0; i < roots_.size() && !by_id.empty(); ++i) {
    const auto found = by_id.find(homes_[i]);
    if (found == by_id.end() || !(found->second->type == roots_[i].type())) continue;
    found->second->result = static_cast<int64_t>(i);
    hash(0x14 + (uint64_t{i} << 8));
    hash(static_cast<uint64_t>(found->second - leaves_.data()));
    by_id.erase(found);
  }
}

void Trace::share_numbers(NumberSharing& sharing) {
  std::vector<NumberBits> bits;
  bits.reserve(numbers_.size());
  for (Node* node : numbers_) {
    const HostNumber& number = node->number();
    const bool is_integer = number.kind == Kind::kInteger;
    const auto element = static_cast<uint64_t>(node->outputs()[0].type.element);
    const auto kind =
        static_cast<uint64_t>(number.origin) << 8 | static_cast<uint64_t>(number.kind);
    bits.push_back({element << 16 | kind,
                    is_integer ? static_cast<uint64_t>(number.integer)
                               : std::bit_cast<uint64_t>(number.real.real()),
                    is_integer ? 0 : std::bit_cast<uint64_t>(number.real.imag())});
  }
  number_places_ = sharing.places(key_, bits);
  for (size_t i = 0; i < numbers_.size(); ++i) {
    if (number_places_[i] == places_.size()) places_.push_back(numbers_[i]);
  }
  if (places_.size() == numbers_.size()) return;
  for (uint32_t place : number_places_) hash(place);
}

std::string Trace::pack_numbers() const {
  std::string bytes;
  auto append = [&](double real, int64_t integer, bool is_integer) {
    char word[8];
    if (width_ == NumberWidth::k64) {
      std::memcpy(word, is_integer ? static_cast<const void*>(&integer) : &real, 8);
    } else if (is_integer) {
      const int32_t narrow = static_cast<int32_t>(integer);
      std::memcpy(word, &narrow, 4);
    } else {
      const float narrow = static_cast<float>(real);
      std::memcpy(word, &narrow, 4);
    }
    bytes.append(word, static_cast<size_t>(width_));
  };
  for (Node* node : places_) {
    const HostNumber& number = node->number();
    if (kind_of(*node, width_) == Kind::kInteger) {
      append(0, number.integer, true);
    } else if (number.kind == Kind::kInteger) {
      append(static_cast<double>(number.integer), 0, false);
    } else {
      append(number.real.real(), 0, false);
      if (number.kind == Kind::kComplex) append(number.real.imag(), 0, false);
    }
  }
  return bytes;
}

std::vector<Trace::RandomWord> Trace::random_words() const {
  std::vector<RandomWord> words;
  uint32_t next = 0;
  for (const Node* node : places_) {
    const HostNumber& number = node->number();
    if (number.origin != HostNumber::Origin::kProgram) {
      words.push_back({next, number.origin, static_cast<uint64_t>(number.integer)});
    }
    next += number.kind == Kind::kComplex ? 2 : 1;
  }
  return words;
}

std::string Trace::emit(const pjrt::Client* host) const {
  StableHloBuilder builder(kBytesPerOperation * operations_.size() +
                           kBytesPerPlace * (leaves_.size() + roots_.size() + places_.size()) +
                           kFewestBytes);
  builder.set_host(host);
  std::vector<Operand> leaves;
  for (const Leaf& leaf : leaves_) {
    std::string attribute;
    if (leaf.result >= 0) {
      attribute = "tf.aliasing_output = " + std::to_string(leaf.result) + " : i32";
    } else if (leaf.donated) {
      attribute = "jax.buffer_donor = true";
    }
    leaves.push_back(builder.parameter(leaf.type, attribute));
  }

  std::vector<Operand> numbers;  // of each place
  if (!places_.empty()) {
    const bool wide = width_ == NumberWidth::k64;
    const ElementType integer = wide ? ElementType::kS64 : ElementType::kS32;
    const ElementType real = wide ? ElementType::kF64 : ElementType::kF32;
    int64_t count = 0;
    for (const Node* node : places_) count += node->number().kind == Kind::kComplex ? 2 : 1;
    const Operand words = builder.parameter(Type{integer, Dimensions{count}}, "");
    int64_t next = 0;
    auto word = [&] {
      const int64_t at = next++;
      return builder.reshape(
          builder.slice(words, Dimensions{at}, Dimensions{at + 1}, Dimensions{1}), Dimensions{});
    };
    for (Node* node : places_) {
      Operand number;
      if (kind_of(*node, width_) == Kind::kInteger) {
        number = word();
      } else {
        number = builder.bitcast_convert(word(), real);
        if (node->number().kind == Kind::kComplex) {
          number = builder.complex(number, builder.bitcast_convert(word(), real));
        }
      }
      numbers.push_back(builder.convert(number, node->outputs()[0].type.element));
    }
  }

  std::vector<Operand> results;
  std::vector<Operand> operands;
  auto operand_of = [&](const Value& value) {
    if (value.node->is_data()) return leaves[value.node->outputs()[value.index].slot];
    if (value.node->is_number()) return numbers[number_places_[value.node->position >> 2]];
    return results[value.node->outputs()[value.index].slot];
  };
  for (Node* node : operations_) {
    operands.clear();
    for (const Value& operand : node->operands()) operands.push_back(operand_of(operand));
    const size_t first = results.size();
    for (Node::Output& output : node->outputs()) {
      output.slot = static_cast<uint32_t>(results.size());
      results.emplace_back();
    }
    builder.set_location(node->op().name);
    Emission emission(builder, *node, operands,
                      std::span(results).subspan(first, node->outputs().size()));
    node->op().emit(emission);
  }

  std::vector<Operand> returned;
  for (const Value& root : roots_) returned.push_back(operand_of(root));
  return builder.finish(returned);
}

}  // namespace torch_pjrt::graph
