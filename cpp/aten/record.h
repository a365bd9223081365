#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "aten/tensor.h"
#include "graph/attributes.h"
#include "graph/emission.h"
#include "graph/operator.h"

namespace torch_pjrt::aten {

// What an operator's row needs, so that rows are short.
using graph::Emission;
using graph::Operand;
using graph::Operands;
using graph::Operator;
using graph::StableHloBuilder;

// Dtype and sizes of one result.
struct Result {
  c10::ScalarType dtype;
  c10::SmallVector<int64_t, 5> sizes;

  Result(c10::ScalarType dtype, at::IntArrayRef sizes)
      : dtype(dtype), sizes(sizes.begin(), sizes.end()) {}
};

// Records one operator:
//
//   at::Tensor relu(const at::Tensor& self) {
//     static constexpr Operator op{"aten::relu", [](Emission& e) {
//       e.result(e.builder().maximum(e.operand(0), 0));
//     }};
//     return Record(op).tensor(self).elementwise(self.scalar_type(), self.sizes());
//   }
//
// Operands are given first, in the order in which the emission reads them; the executor is that of
// the first xla tensor. An operand keeps its own dtype and sizes: the emission converts and
// broadcasts.
class Record {
 public:
  explicit Record(const Operator& op) : op_(op) {}

  // For operators without tensor operands.
  Record& on(graph::Executor& executor) {
    executor_ = &executor;
    return *this;
  }

  // An xla tensor, or a 0-dim cpu one as a number. The first operand that is an xla tensor settles
  // the device; put `on(executor_of({a, b}))` first if a cpu number may come before it.
  Record& tensor(const at::Tensor& tensor);
  Record& tensors(at::ArrayRef<at::Tensor> tensors) {
    for (const at::Tensor& t : tensors) tensor(t);
    return *this;
  }
  // Adds the operand, if defined, and the attribute whether it was.
  Record& optional(const at::Tensor& tensor);
  Record& optional(const std::optional<at::Tensor>& tensor) {
    return optional(tensor.value_or(at::Tensor()));
  }

  // A number that may change between steps without another program.
  Record& number(const at::Scalar& scalar, c10::ScalarType dtype) {
    operands_.push_back(aten::number(scalar, dtype));
    return *this;
  }

  Record& value(graph::Value value) {
    operands_.push_back(std::move(value));
    return *this;
  }

  // Structural constants, read in the same order by the emission.
  Record& attribute(int64_t value) {
    attributes_.add(value);
    return *this;
  }
  Record& attribute(bool value) {
    attributes_.add(value);
    return *this;
  }
  Record& attribute(double value) {
    attributes_.add(value);
    return *this;
  }
  Record& attribute(at::IntArrayRef values) {
    attributes_.add(std::span<const int64_t>(values.data(), values.size()));
    return *this;
  }

  // One new contiguous tensor.
  at::Tensor result(c10::ScalarType dtype, at::IntArrayRef sizes);
  // One new tensor with the strides that PyTorch gives elementwise results of the tensor operands,
  // and of a number that it makes a tensor of.
  at::Tensor elementwise(c10::ScalarType dtype, at::IntArrayRef sizes, bool beside_number = false);
  // One new tensor with dense strides in any order.
  at::Tensor strided(c10::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides);
  // Either of them: contiguous where there are no strides.
  at::Tensor result(c10::ScalarType dtype, at::IntArrayRef sizes,
                    const std::optional<c10::DimVector>& strides);
  // Several new contiguous tensors.
  std::vector<at::Tensor> results(std::initializer_list<Result> results);
  std::vector<at::Tensor> results(at::ArrayRef<Result> results);
  // Writes the one result, which has the tensor's sizes and dtype, into it.
  const at::Tensor& write_to(const at::Tensor& tensor);
  // The one result as a value.
  graph::Value value_result(c10::ScalarType dtype, at::IntArrayRef sizes);

  graph::Executor& executor() const { return *executor_; }

 private:
  const Operator& op_;
  graph::Executor* executor_ = nullptr;
  c10::SmallVector<graph::Value, 4> operands_;
  c10::SmallVector<at::Tensor, 4> tensors_;
  graph::Attributes attributes_;
};

// Asks the device to check that every element of `index` is within [-size, size) (with
// `allow_negative`) or [0, size); the error comes at the next read or sync and names `op`.
// Does nothing when `torch_pjrt.config.check_indices` is off.
void check_index_range(const Operator& op, const at::Tensor& index, int64_t size,
                       bool allow_negative);

}  // namespace torch_pjrt::aten
