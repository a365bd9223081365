#include <ATen/ExpandUtils.h>

#include "aten/layout.h"
#include "aten/ops/binary.h"

namespace torch_pjrt::aten {

Record binary_record(const Operator& op, const at::Tensor& self, const at::Tensor& other) {
  Record record(op);
  record.on(executor_of(self.device().is_xla() ? self : other));
  record.tensor(self).tensor(other);
  return record;
}

c10::DimVector broadcast_sizes(const at::Tensor& self, const at::Tensor& other) {
  if (self.sizes() == other.sizes()) return c10::DimVector(self.sizes());
  return at::infer_size_dimvector(self.sizes(), other.sizes());
}

void check_in_place(const at::Tensor& self, const at::Tensor& other, c10::ScalarType result) {
  TORCH_CHECK(c10::canCast(result, self.scalar_type()), "result type ", result,
              " can't be cast to the desired output type ", self.scalar_type());
  check_broadcasts_to(self, other);
}

void check_in_place(const at::Tensor& self, const at::Tensor& other) {
  check_in_place(self, other, at::result_type(self, other));
}

}  // namespace torch_pjrt::aten
