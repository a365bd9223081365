#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logspace.h>
#include <torch/library.h>

#include "aten/device.h"
#include "aten/ops/spacing.h"

// Evenly spaced numbers: arange, linspace, logspace.
namespace torch_pjrt::aten {
namespace {

using graph::ElementType;

// CPU computes positions of floating results in float64, of integers in int64.
c10::ScalarType working_dtype(c10::ScalarType dtype) {
  return at::isIntegralType(dtype, true) ? at::kLong : at::kDouble;
}

constexpr Operator kCount{"aten::arange.count",
                          [](Emission& e) { e.result(e.builder().iota(e.result_type(), 0)); }};
// operands: start, step
constexpr Operator kArange{"aten::arange", [](Emission& e) {
                             StableHloBuilder& b = e.builder();
                             const graph::Type& type = e.result_type();
                             const ElementType working = e.operand(0).element();
                             Operand x = b.iota({working, type.dimensions}, 0);
                             x = b.multiply(x, b.broadcast_to(e.operand(1), type.dimensions));
                             x = b.add(b.broadcast_to(e.operand(0), type.dimensions), x);
                             e.result(b.convert(x, type.element));
                           }};

// Number of elements of a range, by PyTorch's own rule for the dtype.
int64_t range_length(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                     at::ScalarType dtype) {
  int64_t length = 0;
  AT_DISPATCH_ALL_TYPES_AND2(at::kBFloat16, at::kHalf, dtype, "arange", [&] {
    length = at::native::compute_arange_size<scalar_t>(start, end, step);
  });
  return length;
}

void resize_range(at::Tensor& out, int64_t length) {
  if (out.numel() == length) return;
  if (out.numel() != 0) {
    TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ",
               out.numel(), " which does not match the computed number of elements ", length,
               ". Note that this may occur as a result of rounding error. The out tensor will be ",
               "resized to a tensor of shape (", length, ",).");
  }
  out.resize_({length});
}

// Writes a list through `out`, which may have any shape of as many elements.
void write_list(const at::Tensor& out, Record& record) {
  if (out.dim() == 1) {
    record.write_to(out);
  } else {
    out.copy_(record.result(out.scalar_type(), {out.numel()}).view(out.sizes()));
  }
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                       at::Tensor& out) {
  const at::ScalarType dtype = out.scalar_type();
  resize_range(out, range_length(start, end, step, dtype));
  if (out.numel() == 0) return out;
  graph::Executor& executor = executor_of(out);
  const bool counts = start.toDouble() == 0 && step.toDouble() == 1;
  Record record(counts ? kCount : kArange);
  record.on(executor);
  if (!counts) {
    const at::ScalarType working = working_dtype(dtype);
    record.number(start, working).number(step, working);
  }
  write_list(out, record);
  return out;
}

// operands: start, end, number of intervals
Operand spaced(Emission& e) {
  return evenly_spaced(e.builder(), e.operand(0), e.operand(1), e.operand(2),
                       e.result_type().dimensions[0], e.result_type().element);
}

constexpr Operator kLinspace{"aten::linspace", [](Emission& e) { finish(e, spaced(e)); }};
// operand 3: base
constexpr Operator kLogspace{
    "aten::logspace", [](Emission& e) {
      StableHloBuilder& b = e.builder();
      const Operand exponent = spaced(e);
      const Operand base = b.convert(e.operand(3), exponent.element());
      finish(e, b.power(b.broadcast_to(base, exponent.dimensions()), exponent));
    }};

void resize_steps(at::Tensor& out, int64_t steps) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
}

// Complex results keep their dtype; the others are computed in float32 or float64.
c10::ScalarType spacing_dtype(c10::ScalarType dtype) {
  if (at::isComplexType(dtype)) return dtype;
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

// Integers come from the host, since they are cut off: the last bit of a quotient may decide.
bool from_host(const at::Tensor& out) { return at::isIntegralType(out.scalar_type(), true); }

at::Tensor& linspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps,
                         at::Tensor& out) {
  resize_steps(out, steps);
  if (steps == 0) return out;
  if (from_host(out)) {
    return out.copy_(
        at::linspace(start, end, steps, out.options().device(at::kCPU)).view(out.sizes()));
  }
  const c10::ScalarType working = spacing_dtype(out.scalar_type());
  Record record(kLinspace);
  record.on(executor_of(out)).number(start, working).number(end, working);
  record.number(steps - 1, working);
  write_list(out, record);
  return out;
}

at::Tensor& logspace_out(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                         at::Tensor& out) {
  resize_steps(out, steps);
  if (steps == 0) return out;
  if (from_host(out)) {
    return out.copy_(
        at::logspace(start, end, steps, base, out.options().device(at::kCPU)).view(out.sizes()));
  }
  const c10::ScalarType working = spacing_dtype(out.scalar_type());
  Record record(kLogspace);
  record.on(executor_of(out)).number(start, working).number(end, working);
  record.number(steps - 1, working).number(base, working);
  write_list(out, record);
  return out;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("arange.start_out", TORCH_FN(arange_out));
  m.impl("linspace.out", TORCH_FN(linspace_out));
  m.impl("logspace.out", TORCH_FN(logspace_out));
}

}  // namespace
}  // namespace torch_pjrt::aten
