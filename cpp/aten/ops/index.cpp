#include <torch/library.h>

#include "aten/layout.h"
#include "aten/ops/indexing.h"

// Advanced indexing: reading self[indices].
namespace torch_pjrt::aten {
namespace {

constexpr Operator kIndex{"aten::index", [](Emission& e) {
                            StableHloBuilder& b = e.builder();
                            const Operand x = e.operand(0);
                            if (e.result_type().element_count() == 0)
                              return e.result(b.zeros(e.result_type()));
                            const EmittedIndex index = emit_index(e, 1, x);
                            graph::GatherDimensions d;
                            d.offset = index.window;
                            d.collapsed_slice = index.dims;
                            d.start_index_map = index.dims;
                            d.index_vector = index.vectors.rank() - 1;
                            graph::Dimensions slice = x.dimensions();
                            for (int64_t dim : index.dims) slice[static_cast<size_t>(dim)] = 1;
                            e.result(b.gather(x, index.vectors, d, slice));
                          }};

// CPU walks self and the indices as one elementwise loop, and that loop orders the result.
std::optional<c10::DimVector> index_strides(const at::Tensor& self, const IndexPlan& plan) {
  bool is_default = has_default_strides(self.sizes(), self.strides());
  for (const at::Tensor& index : plan.indices) {
    is_default = is_default && has_default_strides(index.sizes(), index.strides());
  }
  if (is_default) return std::nullopt;
  const size_t rank = plan.index_sizes.size();
  c10::DimVector strides, trailing;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(plan.dims.begin(), plan.dims.end(), d) == plan.dims.end()) {
      strides.push_back(self.stride(d));
    }
  }
  strides.insert(strides.begin() + plan.position, rank, 0);
  std::vector<at::Tensor> walked{self.as_strided(plan.sizes, strides)};
  for (const at::Tensor& index : plan.indices) {
    c10::DimVector sizes(index.sizes());
    sizes.append(plan.sizes.size() - static_cast<size_t>(plan.position) - rank, 1);
    walked.push_back(index.reshape(sizes));
  }
  return elementwise_strides(walked, plan.sizes);
}

at::Tensor index(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  const IndexPlan plan = plan_index(kIndex, self, indices);
  Record record(kIndex);
  record.tensor(self);
  record_plan(record, plan);
  return record.result(self.scalar_type(), plan.sizes, index_strides(self, plan));
}

TORCH_LIBRARY_IMPL(aten, XLA, m) { m.impl("index.Tensor", TORCH_FN(index)); }

}  // namespace
}  // namespace torch_pjrt::aten
