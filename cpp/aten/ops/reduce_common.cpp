#include "aten/ops/reduce.h"

#include <algorithm>
#include <numeric>

namespace torch_pjrt::aten {

c10::DimVector reduced_dims(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  c10::DimVector result;
  if (dims && !dims->empty()) {
    const auto mask = at::dim_list_to_bitset(*dims, self.dim());
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (mask[d]) result.push_back(d);
    }
    return result;
  }
  result.resize(static_cast<size_t>(self.dim()));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

c10::DimVector reduced_sizes(const at::Tensor& self, at::IntArrayRef dims, bool keepdim) {
  c10::DimVector sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const bool gone = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!gone) {
      sizes.push_back(self.size(d));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

int64_t reduced_count(const at::Tensor& self, at::IntArrayRef dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= self.size(d);
  return count;
}

void check_nonempty(const Operator& op, const at::Tensor& self, at::IntArrayRef dims) {
  if (self.numel() != 0) return;
  const std::string_view name = op.name.substr(6);
  TORCH_CHECK(!dims.empty(), name, "(): Expected reduction dim to be specified for ",
              "input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
  for (int64_t d : dims) {
    TORCH_CHECK_INDEX(self.size(d) != 0, name, "(): Expected reduction dim ", d,
                      " to have non-zero size.");
  }
}

Record reduction_record(const Operator& op, const at::Tensor& self, at::IntArrayRef dims,
                        bool keepdim) {
  Record record(op);
  record.tensor(self).attribute(dims).attribute(keepdim);
  return record;
}

Reduction::Reduction(Emission& e, ElementType element)
    : x(e.builder().convert(e.operand(0), element)) {
  for (int64_t d : e.attributes.list()) dims.push_back(d);
  keepdim = e.attributes.boolean();
}

}  // namespace torch_pjrt::aten
