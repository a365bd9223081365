#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "graph/emission.h"
#include "graph/executor.h"
#include "transfer/device_to_host.h"
#include "transfer/transfer_test_support.h"

namespace torch_pjrt::graph {

// ---- operators to record ----
inline constexpr Operator kAdd{
    "test::add", [](Emission& e) { e.result(e.builder().add(e.operand(0), e.operand(1))); }};
inline constexpr Operator kSubtract{"test::subtract", [](Emission& e) {
                                      e.result(e.builder().subtract(e.operand(0), e.operand(1)));
                                    }};
inline constexpr Operator kNegate{"test::negate",
                                  [](Emission& e) { e.result(e.builder().negate(e.operand(0))); }};
// Adds a number to every element.
inline constexpr Operator kAddNumber{
    "test::add_number", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      e.result(b.add(e.operand(0), b.broadcast_to(e.operand(1), e.result_type().dimensions)));
    }};
// Two results: x + 1 and x + 2.
inline constexpr Operator kTwo{"test::two", [](Emission& e) {
                                 e.result(0, e.builder().add(e.operand(0), 1));
                                 e.result(1, e.builder().add(e.operand(0), 2));
                               }};
// The compiler of this one refuses it.
inline constexpr Operator kRefused{"test::refused", [](Emission&) {
                                     throw pjrt::Error(pjrt::ErrorCode::kUnimplemented,
                                                       "lower test::refused", "it is refused");
                                   }};

inline Value record(const Operator& op, std::vector<Value> operands, const Type& type) {
  return {Node::operation(op, operands, {}, type), 0};
}
inline Value record(const Operator& op, std::vector<Value> operands) {
  const Type type = operands[0].type();
  return record(op, std::move(operands), type);
}
inline NodePtr record_two(const Operator& op, const Value& x) {
  const Type types[] = {x.type(), x.type()};
  return Node::operation(op, {&x, 1}, {}, types);
}
inline Value real_number(double value, ElementType element = ElementType::kF32) {
  HostNumber number;
  number.real = value;
  return {Node::number(number, element), 0};
}

// An executor of its own for one device of a plugin, with an empty cache of programs.
class TestDevice {
 public:
  explicit TestDevice(pjrt::Client& client, const std::string& cache_directory = {})
      : client_(std::shared_ptr<void>(), &client),
        executor(client_, client.addressable_devices()[0],
                 std::make_shared<CompileCache>(client_, options(), cache_directory), 0) {}

  static pjrt::CompileOptions options() {
    pjrt::CompileOptions options;
    options.portable = true;
    return options;
  }

  template <typename T>
  Value upload(ElementType element, const std::vector<T>& values, const Dimensions& dimensions) {
    pjrt::HostArray array;
    array.data = values.data();
    array.type = element;
    array.dimensions = dimensions;
    array.device = executor.device();
    SharedBufferPtr buffer(new SharedBuffer(client_->buffer_from_host(array).buffer));
    return {Node::data(std::move(buffer), Type{element, dimensions}), 0};
  }
  template <typename T>
  Value upload(ElementType element, const std::vector<T>& values) {
    return upload(element, values, Dimensions{static_cast<int64_t>(values.size())});
  }
  Value floats(const std::vector<float>& values) { return upload(ElementType::kF32, values); }

  template <typename T>
  std::vector<T> read(Value value) {
    const Type type = value.type();
    std::vector<T> values(static_cast<size_t>(type.element_count()));
    EXPECT_EQ(sizeof(T) * 8, static_cast<size_t>(pjrt::bit_width(type.element)));
    const SharedBufferPtr buffer = executor.buffer(std::move(value));
    transfer::device_to_host(*client_, buffer->buffer,
                             {values.data(), type.dimensions, /*byte_strides=*/{}});
    return values;
  }
  std::vector<float> read_floats(Value value) { return read<float>(std::move(value)); }

 private:
  std::shared_ptr<pjrt::Client> client_;

 public:
  Executor executor;
};

// How much a counter grew since this was made.
class Growth {
 public:
  explicit Growth(std::string_view name)
      : counter_(base::counter(std::string(name))), before_(counter_.value()) {}
  int64_t operator()() const { return counter_.value() - before_; }

 private:
  base::Counter& counter_;
  int64_t before_;
};

}  // namespace torch_pjrt::graph
