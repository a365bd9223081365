#pragma once

#include <atomic>
#include <complex>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ref_counted.h"
#include "graph/attributes.h"
#include "graph/operator.h"
#include "graph/shared_buffer.h"
#include "graph/type.h"

namespace torch_pjrt::graph {

class Node;
using NodePtr = base::RefPtr<Node>;

// One output of a node. Cheap to copy; keeps the node alive.
struct Value {
  NodePtr node;
  uint32_t index = 0;

  explicit operator bool() const noexcept { return static_cast<bool>(node); }
  const Type& type() const noexcept;
  friend bool operator==(const Value&, const Value&) noexcept = default;
};

// A number that came from the host: it is passed to the program at each execution, so that another
// number does not mean another program.
struct HostNumber {
  enum class Kind : uint8_t { kInteger, kReal, kComplex };
  // The seed and the offset of a random stream are others at each execution of a program.
  enum class Origin : uint8_t { kProgram, kSeed, kOffset };
  Kind kind = Kind::kReal;
  Origin origin = Origin::kProgram;
  int64_t integer = 0;
  std::complex<double> real = 0.0;
};

// A recorded operation, a host number, or device data. Nodes form a DAG through their operands;
// operations are immutable until an execution turns their outputs into device data.
//
// Threads: references may be added and dropped on any thread. `outputs` and `operands` change only
// under the recording lock (graph/lock.h).
class Node {
 public:
  struct Output {
    Type type;
    SharedBufferPtr buffer;   // set once the output is device data
    uint64_t root_visit = 0;  // scratch of the trace that has this output as a root
    uint32_t slot = 0;        // scratch of the trace that visits this node
  };

  static NodePtr operation(const Operator& op, std::span<const Value> operands,
                           Attributes attributes, std::span<const Type> types);
  static NodePtr operation(const Operator& op, std::span<const Value> operands,
                           Attributes attributes, const Type& type) {
    return operation(op, operands, std::move(attributes), std::span<const Type>(&type, 1));
  }
  static NodePtr number(HostNumber number, ElementType element);
  static NodePtr data(SharedBufferPtr buffer, Type type);

  bool is_operation() const noexcept { return op_ && !is_data(); }
  bool is_number() const noexcept { return !op_ && !is_data(); }
  bool is_data() const noexcept { return is_data_.load(std::memory_order_relaxed); }

  const Operator& op() const noexcept { return *op_; }
  // The operator's name, also once the node is data; for errors.
  std::string_view name() const noexcept { return op_ ? op_->name : "use a number"; }
  std::span<Value> operands() noexcept { return {operands_, operand_count_}; }
  std::span<Output> outputs() noexcept { return {outputs_, output_count_}; }
  const Attributes& attributes() const noexcept { return attributes_; }
  const HostNumber& number() const noexcept { return number_; }

  // The position of the user's line in the table of source lines, 0 when none was taken. Any
  // thread.
  uint32_t source_line() const noexcept { return source_line_.load(std::memory_order_relaxed); }
  void set_source_line(uint32_t line) noexcept {
    source_line_.store(line, std::memory_order_relaxed);
  }

  // Turns the node into device data: outputs that have no buffer are gone for good. The operands
  // go to `released`, for the caller to destroy outside the lock.
  void become_data(std::vector<Value>& released);

  void add_reference() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void release_reference() noexcept;
  uint32_t reference_count() const noexcept { return count_.load(std::memory_order_acquire); }

  // Scratch of the trace, or the replay, that visits this node; see next_visit.
  uint64_t visit = 0;
  uint64_t structure = 0;
  uint32_t uses = 0;
  uint32_t position = 0;

 private:
  Node() noexcept = default;
  ~Node() = default;
  static Node* allocate(size_t operand_count, size_t output_count);
  static void destroy(Node* node) noexcept;

  const Operator* op_ = nullptr;
  std::atomic<bool> is_data_{false};  // changes once, while others record
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> source_line_{0};
  Attributes attributes_;
  HostNumber number_;
  Value* operands_ = nullptr;
  Output* outputs_ = nullptr;
  uint32_t operand_count_ = 0;
  uint32_t output_count_ = 0;
};

inline const Type& Value::type() const noexcept { return node->outputs()[index].type; }

// A number that no scratch holds yet. Under the recording lock.
uint64_t next_visit() noexcept;

inline uint64_t mix(uint64_t seed, uint64_t value) noexcept {
  uint64_t h = (seed ^ value) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 29);
}

}  // namespace torch_pjrt::graph
