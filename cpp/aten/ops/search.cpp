#include "aten/ops/search.h"

#include <ATen/native/BucketizationUtils.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

// Positions in sorted sequences.
namespace torch_pjrt::aten {

using graph::ElementType;

Operand emit_search(StableHloBuilder& b, Operand sequence, Operand values, bool right) {
  const bool shared = sequence.rank() == 1;
  const int64_t size = sequence.dimension(-1);
  Operand found = b.zeros({ElementType::kS32, values.dimensions()});
  if (size == 0) return found;
  int64_t step = 1;
  while (step * 2 <= size) step *= 2;
  for (; step > 0; step /= 2) {
    // Does the sequence's element before `candidate` come before the value?
    const Operand candidate = b.add(found, step);
    const Operand place = b.minimum(b.subtract(candidate, 1), size - 1);
    const Operand element =
        shared ? b.take(sequence, place, 0) : b.gather_elements(sequence, place, 1);
    const Operand after = right ? b.greater(element, values) : b.greater_equal(element, values);
    const Operand moves = b.bit_and(b.bit_not(after), b.less_equal(candidate, size));
    found = b.select(moves, candidate, found);
  }
  return found;
}

namespace {

// operands: sequence, values, sorter if given; attributes: right, sorter given
constexpr Operator kSearch{
    "aten::searchsorted", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const graph::Type& type = e.result_type();
      const bool right = e.attributes.boolean(), sorted_by = e.attributes.boolean();
      Operand sequence = e.operand(0), values = e.operand(1);
      if (type.element_count() == 0 || sequence.type().element_count() == 0) {
        return e.result(b.zeros(type));
      }
      if (sorted_by) sequence = b.gather_elements(sequence, e.operand(2), -1);
      if (sequence.rank() == 1) {
        values = b.flatten(values);
      } else {
        sequence = b.reshape(sequence, {-1, sequence.dimension(-1)});
        values = b.reshape(values, {sequence.dimension(0), -1});
      }
      const Operand found = emit_search(b, sequence, values, right);
      e.result(b.reshape(b.convert(found, type.element), type.dimensions));
    }};

at::Tensor search(const at::Tensor& given_sequence, const at::Tensor& given_values, bool out_int32,
                  bool right, const std::optional<std::string_view>& side,
                  const at::Tensor& sorter) {
  const at::ScalarType dtype = out_int32 ? at::kInt : at::kLong;
  const at::Tensor model = at::empty({0}, at::TensorOptions().device(at::kMeta).dtype(dtype));
  at::native::searchsorted_pre_check(given_sequence, given_values, model, out_int32, right, side,
                                     sorter);
  at::Tensor sequence = given_sequence, values = given_values;
  if (sequence.scalar_type() != values.scalar_type()) {
    const at::ScalarType common = at::native::result_type(at::native::update_result_type_state(
        values, at::native::update_result_type_state(sequence, {})));
    sequence = sequence.to(common);
    values = values.to(common);
  }
  Record record(kSearch);
  record.tensor(sequence).tensor(values).attribute(right || (side && *side == "right"));
  record.optional(sorter);
  return record.result(dtype, values.sizes());
}

at::Tensor searchsorted_tensor(const at::Tensor& sequence, const at::Tensor& values, bool out_int32,
                               bool right, std::optional<std::string_view> side,
                               const std::optional<at::Tensor>& sorter) {
  return search(sequence, values, out_int32, right, side, sorter.value_or(at::Tensor()));
}

at::Tensor searchsorted_scalar(const at::Tensor& sequence, const at::Scalar& value, bool out_int32,
                               bool right, std::optional<std::string_view> side,
                               const std::optional<at::Tensor>& sorter) {
  return search(sequence, at::native::searchsorted_scalar_tensor(value, sequence.device()),
                out_int32, right, side, sorter.value_or(at::Tensor()));
}

void check_boundaries(const at::Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
}

at::Tensor bucketize_tensor(const at::Tensor& self, const at::Tensor& boundaries, bool out_int32,
                            bool right) {
  check_boundaries(boundaries);
  return search(boundaries, self, out_int32, right, std::nullopt, {});
}

at::Tensor bucketize_scalar(const at::Scalar& self, const at::Tensor& boundaries, bool out_int32,
                            bool right) {
  check_boundaries(boundaries);
  return search(boundaries, at::native::searchsorted_scalar_tensor(self, boundaries.device()),
                out_int32, right, std::nullopt, {});
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("searchsorted.Tensor", TORCH_FN(searchsorted_tensor));
  m.impl("searchsorted.Scalar", TORCH_FN(searchsorted_scalar));
  m.impl("bucketize.Tensor", TORCH_FN(bucketize_tensor));
  m.impl("bucketize.Scalar", TORCH_FN(bucketize_scalar));
}

}  // namespace
}  // namespace torch_pjrt::aten
