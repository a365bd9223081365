#pragma once

#include <array>
#include <charconv>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/stablehlo_builder.h"

// What the files of the builder share; not for users of the builder but those who add operations.
namespace torch_pjrt::graph {

// Throws std::invalid_argument `what: problem; got X; expected Y; remedy`; empty parts are left
// out.
[[noreturn]] void fail(std::string_view what, std::string_view problem, std::string_view got = {},
                       std::string_view expected = {}, std::string_view remedy = {});

std::string to_string(Ints values);  // [1, 2]

bool contains(Ints list, int64_t value);

// Fails unless `init` is a scalar of x's element type.
void check_init(std::string_view what, Operand init, Operand x);

// The operation that a body of this reducer is made of, as "stablehlo.add".
std::string_view operation_name(Reducer reducer);

// What XLA's simplifier merges with the operation that follows.
enum class StableHloBuilder::Origin : uint8_t { kAnother, kQuotient, kPower };

struct StableHloBuilder::Value {
  const Type* type = nullptr;
  uint32_t scope = 0;
  Origin origin = Origin::kAnother;
};

// @main, or a region inside it, while it is being written.
struct StableHloBuilder::Scope {
  struct ConstantKey {
    Type type;
    int64_t kind;  // -1: a splat of the number; else an iota along that dimension
    uint64_t low, high;
    friend bool operator==(const ConstantKey&, const ConstantKey&) = default;
  };
  struct ConstantHash {
    size_t operator()(const ConstantKey& key) const noexcept;
  };

  uint32_t id = 0;
  bool isolated = true;  // may not use values of the scopes around it
  std::unordered_map<ConstantKey, Operand, ConstantHash> constants;
};

struct StableHloBuilder::State {
  static constexpr uint32_t kChunkBits = 8;
  static constexpr uint32_t kChunk = 1u << kChunkBits;

  std::string text;  // what is written of @main's body
  std::string parameters;
  std::string location;  // what ends a statement: ` loc(#l3)` and the line end
  std::vector<std::string> location_names;
  std::unordered_map<std::string, size_t> location_index;
  // Values share their types, which are few: a program's values would else not fit into a cache.
  std::deque<Type> types;  // stable addresses; equal ones may occur again
  std::array<const Type*, 64> recent_types{};
  std::vector<std::unique_ptr<std::array<Value, kChunk>>> chunks;
  uint32_t value_count = 0;
  uint32_t scope_count = 1;
  std::vector<Scope> scopes{1};

  Value& value(uint32_t id) { return (*chunks[id >> kChunkBits])[id & (kChunk - 1)]; }
  uint32_t new_value(const Type& type) {
    if (!(value_count & (kChunk - 1)))
      chunks.push_back(std::make_unique<std::array<Value, kChunk>>());
    value(value_count) = {shared(type), scopes.back().id};
    return value_count++;
  }
  const Type* shared(const Type& type) {
    auto hash = static_cast<uint64_t>(type.element);
    for (int64_t d : type.dimensions) {
      hash = (hash ^ static_cast<uint64_t>(d)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    const Type*& slot = recent_types[hash % recent_types.size()];
    if (!slot || !(*slot == type)) slot = &types.emplace_back(type);
    return slot;
  }
};

// One statement while it is being written:
//   Statement s(builder, "stablehlo.add", type);  // `%12 = stablehlo.add`
//   s.operands({a, b}).text(" : ").type(type);
//   return s.end();
// Check operands (StableHloBuilder::Statement::check) before the statement begins.
class StableHloBuilder::Statement {
 public:
  Statement(StableHloBuilder& builder, std::string_view name, const Type& result)
      : Statement(builder, name, ListRef<Type>(std::span<const Type>(&result, 1))) {}
  // A name in quotes begins the generic form.
  Statement(StableHloBuilder& builder, std::string_view name, ListRef<Type> results);

  Statement& text(std::string_view piece) {
    out().append(piece);
    return *this;
  }
  Statement& number(int64_t value) {
    append(out(), value);
    return *this;
  }
  Statement& operand(Operand x) {
    out().push_back('%');
    append(out(), x.id);
    return *this;
  }
  Statement& type(const Type& type) {
    append(out(), type);
    return *this;
  }
  Statement& operands(OperandList list);  // %1, %2
  Statement& types(OperandList list);     // tensor<2xf32>, tensor<2xf32>
  Statement& list(Ints values);           // [1, 2]
  Statement& array(Ints values);          // array<i64: 1, 2>
  // ` : (operand types) -> result types`
  Statement& signature(OperandList operands);
  // `{ ^bb0(arguments): body, stablehlo.return }`; gives the types that the body returns.
  static std::vector<Type> write_region(StableHloBuilder& builder, std::string_view what,
                                        ListRef<Type> arguments, bool isolated, const Body& body);
  // The same inside this statement; `expected` are the types it must return.
  Statement& region(std::string_view what, ListRef<Type> arguments, bool isolated, const Body& body,
                    ListRef<Type> expected);
  Statement& reducer_region(Reducer reducer, ElementType element);
  Operand end();
  Operands end_all();

  // Throws unless x is a value that may be used here.
  static void check(const StableHloBuilder& builder, std::string_view what, Operand x);
  static void check(const StableHloBuilder& builder, std::string_view what, OperandList list) {
    for (Operand x : list) check(builder, what, x);
  }

  static void append(std::string& out, int64_t value) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr - digits);
  }
  static void append(std::string& out, const Type& type);

 private:
  std::string& out() { return builder_.state_->text; }

  StableHloBuilder& builder_;
  uint32_t first_;
  uint32_t count_;
};

}  // namespace torch_pjrt::graph
