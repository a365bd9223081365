#pragma once

#include "aten/ops/elementwise.h"

// What activations and their gradients share.
namespace torch_pjrt::aten {

// A record of elementwise tensors and numbers, in the dtype of the first tensor. The gradient, if
// any, is the first tensor.
inline Record activation_record(const Operator& op, at::ArrayRef<at::Tensor> tensors,
                                std::initializer_list<at::Scalar> numbers = {}) {
  Record record(op);
  record.tensors(tensors);
  const c10::ScalarType dtype = at::toOpMathType(tensors.front().scalar_type());
  for (const at::Scalar& number : numbers) record.number(number, dtype);
  return record;
}

inline void check_floating(const Operator& op, const at::Tensor& self) {
  check_implemented(self.is_floating_point(), op, self.scalar_type());
}

inline at::Tensor activation(const Operator& op, const at::Tensor& self,
                             std::initializer_list<at::Scalar> numbers = {}) {
  check_floating(op, self);
  return activation_record(op, self, numbers).elementwise(self.scalar_type(), self.sizes());
}

inline at::Tensor& activation_(const Operator& op, at::Tensor& self,
                               std::initializer_list<at::Scalar> numbers = {}) {
  check_floating(op, self);
  activation_record(op, self, numbers).write_to(self);
  return self;
}

// The gradient of an activation, from the gradient of its result and its input or result.
inline at::Tensor gradient(const Operator& op, const at::Tensor& grad, const at::Tensor& self,
                           std::initializer_list<at::Scalar> numbers = {}) {
  return activation_record(op, {grad, self}, numbers)
      .elementwise(at::result_type(grad, self), broadcast_sizes(grad, self));
}

}  // namespace torch_pjrt::aten
