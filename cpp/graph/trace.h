#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/node.h"
#include "graph/number_sharing.h"
#include "graph/program_key.h"

namespace torch_pjrt::pjrt {
class Client;
}

namespace torch_pjrt::graph {

// Host numbers are passed as one array of words: 64-bit ones (f64 or s64 bits) where the device has
// both types, else 32-bit ones (f32 or s32 bits). A complex number takes two words.
enum class NumberWidth : uint8_t { k32 = 4, k64 = 8 };

// The nodes that a set of roots depends on, in an order that depends only on their structure, and
// the inputs that they read. Built under the recording lock; afterwards read on one thread.
class Trace {
 public:
  struct Leaf {
    SharedBufferPtr buffer;
    Type type;
    bool donated = false;
    int64_t result = -1;  // where donated: the root that is to be put there, -1 for any
  };

  struct Root {
    Value value;
    uint64_t home = 0;  // the id of the buffer that it replaces, 0 for none
  };

  // Roots are the values of pending cells, one for each cell. With `donate`, leaves that nothing
  // but this trace refers to are marked as given away to the execution.
  Trace(std::vector<Root> roots, NumberWidth width, bool donate, NumberSharing& sharing);

  const std::vector<Value>& roots() const noexcept { return roots_; }
  const std::vector<Leaf>& leaves() const noexcept { return leaves_; }
  const ProgramKey& key() const noexcept { return key_; }
  size_t operation_count() const noexcept { return operations_.size(); }

  // A failure that a root depends on, by root; null for those that can be computed.
  const std::vector<FailurePtr>& failures() const noexcept { return failures_; }
  bool has_failures() const noexcept { return has_failures_; }

  // A word of the packed numbers that a random stream gave, and what it gave.
  struct RandomWord {
    uint32_t position;
    HostNumber::Origin origin;
    uint64_t value;
  };
  std::vector<RandomWord> random_words() const;

  // The packed host numbers, as bytes; empty when the program reads none.
  std::string pack_numbers() const;

  // The StableHLO module: parameters are the leaves in order, then the words of the numbers when
  // there are any; results are the roots in order. For `host`, if given, which may then be called
  // back (StableHloBuilder::set_host), else for any device.
  std::string emit(const pjrt::Client* host = nullptr) const;

 private:
  using Places = std::vector<uint32_t>;

  void visit_in_order(std::vector<Root>& roots);
  Places places_read_by(const Value& root) const;
  void visit(Node* root);
  uint32_t leaf(const Value& value);
  void find_failures();
  void find_donations(bool donate);
  void pair_donations();
  void share_numbers(NumberSharing& sharing);
  void hash(uint64_t word) noexcept;
  void hash(const Type& type) noexcept;

  NumberWidth width_;
  std::vector<Value> roots_;
  std::vector<uint64_t> homes_;    // of each root
  std::vector<Node*> operations_;  // operands before users
  std::vector<Node*> numbers_;
  std::vector<uint32_t> number_places_;  // of each number
  std::vector<Node*> places_;            // a number for each place
  std::vector<Node*> data_;              // the node of each leaf
  std::vector<Leaf> leaves_;
  std::vector<FailurePtr> failures_;
  bool has_failures_ = false;
  uint64_t visit_ = 0;
  ProgramKey key_;
};

}  // namespace torch_pjrt::graph
