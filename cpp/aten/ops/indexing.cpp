#include "aten/ops/indexing.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/nonzero.h>

namespace torch_pjrt::aten {
namespace {

void check_dtype(const at::Tensor& index) {
  const at::ScalarType dtype = index.scalar_type();
  TORCH_CHECK_INDEX(dtype == at::kLong || dtype == at::kInt || is_mask(index),
                    "tensors used as indices must be long, int, byte or bool tensors");
}

// One tensor for each dimension of self that the list reaches; undefined where not indexed.
std::vector<at::Tensor> expand_masks(const at::Tensor& self,
                                     const c10::List<std::optional<at::Tensor>>& indices) {
  std::vector<at::Tensor> expanded;
  for (const std::optional<at::Tensor>& entry : indices) {
    if (!entry || !entry->defined()) {
      expanded.emplace_back();
      continue;
    }
    const at::Tensor index = entry->to(self.device());
    check_dtype(index);
    if (!is_mask(index)) {
      expanded.push_back(index);
      continue;
    }
    if (index.scalar_type() == at::kByte) {
      TORCH_WARN(
          "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool ",
          "instead.");
    }
    for (int64_t d = 0; d < index.dim(); ++d) {
      const int64_t target = static_cast<int64_t>(expanded.size()) + d;
      TORCH_CHECK_INDEX(target < self.dim(), "too many indices for tensor of dimension ",
                        self.dim());
      TORCH_CHECK_INDEX(index.size(d) == self.size(target), "The shape of the mask ", index.sizes(),
                        " at index ", d, " does not match the shape of the indexed tensor ",
                        self.sizes(), " at index ", target);
    }
    const at::Tensor places = at::nonzero(index);
    for (int64_t d = 0; d < index.dim(); ++d) expanded.push_back(places.select(1, d));
  }
  return expanded;
}

c10::DimVector common_sizes(const std::vector<at::Tensor>& indices) {
  c10::DimVector sizes(indices.front().sizes());
  for (const at::Tensor& index : indices) {
    bool fits = true;
    try {
      sizes = at::infer_size_dimvector(sizes, index.sizes());
    } catch (const c10::Error&) {
      fits = false;
    }
    if (fits) continue;
    std::ostringstream shapes;
    for (size_t i = 0; i < indices.size(); ++i) shapes << (i ? ", " : "") << indices[i].sizes();
    TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together ",
                      "with shapes ", shapes.str());
  }
  return sizes;
}

}  // namespace

IndexPlan plan_index(const Operator& op, const at::Tensor& self,
                     const c10::List<std::optional<at::Tensor>>& indices) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(), " (got ",
                    indices.size(), ")");
  IndexPlan plan;
  const std::vector<at::Tensor> expanded = expand_masks(self, indices);
  TORCH_CHECK_INDEX(static_cast<int64_t>(expanded.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(), " (got ",
                    expanded.size(), ")");
  for (size_t d = 0; d < expanded.size(); ++d) {
    if (!expanded[d].defined()) continue;
    plan.indices.push_back(expanded[d]);
    plan.dims.push_back(static_cast<int64_t>(d));
  }
  TORCH_CHECK_INDEX(!plan.indices.empty(), "index: no index tensor was given");
  plan.index_sizes = common_sizes(plan.indices);
  const bool adjacent =
      plan.dims.back() - plan.dims.front() + 1 == static_cast<int64_t>(plan.dims.size());
  plan.position = adjacent ? plan.dims.front() : 0;
  c10::DimVector kept;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(plan.dims.begin(), plan.dims.end(), d) == plan.dims.end()) {
      kept.push_back(self.size(d));
    }
  }
  plan.sizes.append(kept.begin(), kept.begin() + plan.position);
  plan.sizes.append(plan.index_sizes.begin(), plan.index_sizes.end());
  plan.sizes.append(kept.begin() + plan.position, kept.end());
  const int64_t index_count = c10::multiply_integers(plan.index_sizes);
  for (size_t i = 0; i < plan.dims.size(); ++i) {
    const int64_t size = self.size(plan.dims[i]);
    TORCH_CHECK_INDEX(size != 0 || index_count == 0,
                      "index is out of bounds for dimension with size 0");
    check_index_range(op, plan.indices[i], size, /*allow_negative=*/true);
  }
  return plan;
}

void record_plan(Record& record, const IndexPlan& plan) {
  record.tensors(plan.indices);
  record.attribute(at::IntArrayRef(plan.dims));
  record.attribute(at::IntArrayRef(plan.index_sizes));
  record.attribute(plan.position);
}

Operand narrowed(StableHloBuilder& b, Operand index, int64_t size) {
  return size <= INT32_MAX ? b.convert(index, graph::ElementType::kS32) : index;
}

EmittedIndex emit_index(Emission& e, size_t first_operand, Operand self) {
  StableHloBuilder& b = e.builder();
  EmittedIndex emitted;
  emitted.dims = graph::Dimensions(e.attributes.list());
  const graph::Dimensions index_sizes(e.attributes.list());
  const int64_t position = e.attributes.integer();
  const int64_t rank = static_cast<int64_t>(index_sizes.size());
  const int64_t result_rank = self.rank() - static_cast<int64_t>(emitted.dims.size()) + rank;
  for (int64_t d = 0; d < result_rank; ++d) {
    if (d < position || d >= position + rank) emitted.window.push_back(d);
  }
  int64_t largest = 0;
  for (int64_t d : emitted.dims) largest = std::max(largest, self.dimension(d));
  Operands columns;
  for (size_t i = 0; i < emitted.dims.size(); ++i) {
    Operand index = e.operand(first_operand + i);
    index = b.wrap_indices(index, self.dimension(emitted.dims[i]));
    index = b.broadcast_to(narrowed(b, index, largest), index_sizes);
    if (largest > INT32_MAX) index = b.convert(index, graph::ElementType::kS64);
    columns.push_back(index);
  }
  emitted.vectors = b.stack(columns, rank);
  return emitted;
}

void check_index_list(std::string_view name, const at::Tensor& index) {
  TORCH_CHECK_INDEX(index.dim() <= 1, name,
                    "(): Index is supposed to be a vector, but got dim: ", index.dim());
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, name,
              "(): Expected dtype int32/int64 for index but got: ", index.scalar_type());
}

void check_slices(std::string_view name, const at::Tensor& self, int64_t dim,
                  const at::Tensor& index, const at::Tensor& source) {
  check_index_list(name, index);
  TORCH_CHECK(self.scalar_type() == source.scalar_type(), name,
              "(): self and source expected to have the same dtype, but got (self) ",
              self.scalar_type(), " and (source) ", source.scalar_type());
  TORCH_CHECK(source.dim() == self.dim() || source.dim() == 0 || self.dim() == 0, name,
              "(): When source and destination are not scalars, their dimensionality must match. "
              "Source dimensionality (",
              source.dim(), "), destination dimensionality (", self.dim(), ")");
  const int64_t count = source.dim() == 0 ? 1 : source.size(dim);
  TORCH_CHECK_INDEX(index.numel() == count, name, "(): Number of indices (", index.numel(),
                    ") should be equal to source.size(dim): (", count, "), for dim: ", dim);
  for (int64_t d = 0; d < self.dim() && source.dim(); ++d) {
    TORCH_CHECK(d == dim || self.size(d) == source.size(d), name,
                "(): Source/destination tensor must have same slice shapes. Destination slice "
                "shape: ",
                self.sizes(), " at dimension ", dim, " and source slice shape: ", source.sizes(),
                " at dimension ", dim, ".");
  }
}

bool repeats_elements(const at::Tensor& self) {
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.stride(d) == 0 && self.size(d) > 1) return self.numel() != 0;
  }
  return false;
}

at::Tensor without_repeats(const at::Tensor& self) {
  at::Tensor once = self;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.stride(d) == 0 && self.size(d) > 1) once = once.narrow(d, 0, 1);
  }
  return once;
}

}  // namespace torch_pjrt::aten
