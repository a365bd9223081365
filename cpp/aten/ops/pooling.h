#pragma once

#include <functional>

#include "aten/record.h"

namespace torch_pjrt::aten {

// Windows over the last dimensions of an array, with a value for each of them. The emissions below
// work on arrays of shape [planes, spatial...].
struct Pooling {
  graph::Dimensions kernel, stride, padding, dilation, input, output;

  Pooling() = default;
  // `values` of one or `rank` elements; an empty stride is the kernel. Output sizes as PyTorch
  // computes them. Throws RuntimeError.
  Pooling(const char* name, const at::Tensor& self, int64_t rank, at::IntArrayRef kernel,
          at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
          bool ceil_mode);
  explicit Pooling(graph::AttributeReader& attributes);
  void add_to(Record& record) const;

  size_t rank() const { return kernel.size(); }
  int64_t taps() const;  // elements of a window
  int64_t planes(const at::Tensor& self) const;
  c10::DimVector output_sizes(const at::Tensor& self) const;
  // The place of element `tap` within a window, by dimension.
  graph::Dimensions place(int64_t tap) const;
  // Windows lie side by side: neither overlaps nor gaps.
  bool tiles() const { return stride == kernel && (is_dense() || kernel_is_one()); }

  // x reshaped to [planes, input...] or [planes, output...].
  Operand flat_input(StableHloBuilder& builder, Operand x) const;
  Operand flat_output(StableHloBuilder& builder, Operand x) const;
  // x, padded and cut to what the windows cover.
  Operand covered(StableHloBuilder& builder, Operand x, Operand value) const;
  // By tap: that element of every window of a covered x, [planes, output...].
  Operand window_element(StableHloBuilder& builder, Operand covered, int64_t tap) const;
  // Adds the parts, one a tap, to where window_element took them from: [planes, input...].
  Operand merge(StableHloBuilder& builder, const std::function<Operand(int64_t tap)>& part) const;
  // If windows tile: [planes, output 0, kernel 0, output 1, kernel 1...], of a covered x...
  Operand tiled(StableHloBuilder& builder, Operand covered) const;
  graph::Dimensions tiled_sizes(int64_t planes) const;
  // ...where [planes, output...] goes in it, and back to [planes, input...].
  graph::Dimensions tiled_mapping() const;
  Operand untiled(StableHloBuilder& builder, Operand tiles) const;

 private:
  Operand merge_classes(StableHloBuilder& builder,
                        const std::function<Operand(int64_t tap)>& part) const;
  bool is_dense() const;
  bool kernel_is_one() const;
};

// The strides that PyTorch's CPU pooling gives a result of `sizes`, empty if contiguous.
std::optional<c10::DimVector> pooled_strides(const at::Tensor& self, at::IntArrayRef sizes);

// The result of a record in the dtype of `self`, with those strides.
at::Tensor pooled_result(Record& record, const at::Tensor& self, at::IntArrayRef sizes);

}  // namespace torch_pjrt::aten
