#include "aten/record.h"

#include <ATen/MemoryOverlap.h>

#include "aten/any.h"
#include "aten/config.h"
#include "aten/layout.h"
#include "aten/types.h"

namespace torch_pjrt::aten {

Record& Record::tensor(const at::Tensor& tensor) {
  if (!executor_ && tensor.device().is_xla()) executor_ = &executor_of(tensor);
  if (!executor_) {
    TORCH_CHECK(is_host_number(tensor),
                "Expected all tensors to be on the same device, but found at least two devices, "
                "xla and ",
                tensor.device(), "!");
    operands_.push_back(aten::number(tensor.item(), tensor.scalar_type()));
    return *this;
  }
  operands_.push_back(operand_of(tensor, *executor_));
  tensors_.push_back(tensor);
  return *this;
}

Record& Record::optional(const at::Tensor& tensor) {
  attributes_.add(tensor.defined());
  return tensor.defined() ? this->tensor(tensor) : *this;
}

graph::Value Record::value_result(c10::ScalarType dtype, at::IntArrayRef sizes) {
  return {graph::Node::operation(op_, {operands_.data(), operands_.size()}, std::move(attributes_),
                                 type_of(dtype, sizes)),
          0};
}

at::Tensor Record::result(c10::ScalarType dtype, at::IntArrayRef sizes) {
  return make_tensor(*executor_, value_result(dtype, sizes), dtype);
}

at::Tensor Record::elementwise(c10::ScalarType dtype, at::IntArrayRef sizes, bool beside_number) {
  return result(dtype, sizes, elementwise_strides(tensors_, sizes, beside_number));
}

at::Tensor Record::strided(c10::ScalarType dtype, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return make_tensor(*executor_, value_result(dtype, sizes), dtype, strides);
}

at::Tensor Record::result(c10::ScalarType dtype, at::IntArrayRef sizes,
                          const std::optional<c10::DimVector>& strides) {
  if (!strides) [[likely]]
    return result(dtype, sizes);
  return strided(dtype, sizes, *strides);
}

std::vector<at::Tensor> Record::results(std::initializer_list<Result> results) {
  return this->results(at::ArrayRef<Result>(results.begin(), results.size()));
}

std::vector<at::Tensor> Record::results(at::ArrayRef<Result> results) {
  std::vector<graph::Type> types;
  for (const Result& result : results) types.push_back(type_of(result.dtype, result.sizes));
  const graph::NodePtr node = graph::Node::operation(op_, {operands_.data(), operands_.size()},
                                                     std::move(attributes_), types);
  std::vector<at::Tensor> tensors;
  for (uint32_t i = 0; i < results.size(); ++i) {
    tensors.push_back(make_tensor(*executor_, graph::Value{node, i}, results[i].dtype));
  }
  return tensors;
}

const at::Tensor& Record::write_to(const at::Tensor& tensor) {
  at::assert_no_internal_overlap(tensor);
  for (const at::Tensor& operand : tensors_) at::assert_no_partial_overlap(tensor, operand);
  write(tensor, value_result(tensor.scalar_type(), tensor.sizes()));
  return tensor;
}

namespace {

// attributes: size, allow_negative
void emit_out_of_range(Emission& e) {
  StableHloBuilder& b = e.builder();
  const Operand index = e.operand(0);
  const int64_t size = e.attributes.integer();
  const bool allow_negative = e.attributes.boolean();
  const Operand low = b.less(index, allow_negative ? -size : 0);
  const Operand high = b.greater_equal(index, size);
  e.result(any(b, b.bit_or(low, high)));
}

constexpr Operator kOutOfRange{"torch_pjrt::index_out_of_range", emit_out_of_range};

}  // namespace

void check_index_range(const Operator& op, const at::Tensor& index, int64_t size,
                       bool allow_negative) {
  if (!config().check_indices || index.numel() == 0 || !index.device().is_xla()) return;
  graph::Executor& executor = executor_of(index);
  const graph::Value value = value_of(index, executor);
  executor.add_check({{graph::Node::operation(kOutOfRange, {&value, 1},
                                              graph::Attributes::of(size, allow_negative),
                                              graph::Type{graph::ElementType::kPred, {}}),
                       0},
                      &op});
}

}  // namespace torch_pjrt::aten
