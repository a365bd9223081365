#pragma once

#include <ATen/core/Tensor.h>

#include "aten/record.h"
#include "pjrt/foreign_function.h"

// PyTorch's own CPU kernels inside the programs of a device that works on host memory, for what
// StableHLO lacks or XLA does slowly there. Other devices, and exported programs, get StableHLO.
namespace torch_pjrt::aten {

struct HostCall {
  c10::SmallVector<at::Tensor, 4> arguments;  // not to be written
  c10::SmallVector<at::Tensor, 4> results;    // to be written whole, and not resized
  std::span<const int64_t> options;
};

// How results lie in memory; arguments are row-major, as kernels take any order and a device's
// programs would transpose in steps of their own.
enum class MatrixOrder : bool {
  kByRows,
  kByColumns,  // in the last two of the dimensions, as LAPACK leaves them, where there are as many
               // dimensions as the first argument has
};

struct HostFunction {
  pjrt::ForeignFunction function;
  MatrixOrder order;
};

void run_on_host_tensors(const pjrt::ForeignCall& call, MatrixOrder order, void (*run)(HostCall&));

template <void (*run)(HostCall&), MatrixOrder order>
void run_on_host_tensors(const pjrt::ForeignCall& call) {
  run_on_host_tensors(call, order, run);
}

// `run` is kernels of the cpu on the call's tensors, nothing else. It is called without the GIL:
// with few elements on the device's threads, several at once; with many on one thread, which alone
// has PyTorch's team of threads. What it throws fails the execution, with all its results.
template <void (*run)(HostCall&), MatrixOrder order>
constexpr HostFunction host_function(std::string_view name) {
  return {pjrt::foreign_function<run_on_host_tensors<run, order>>(name), order};
}

// Calls the function in the program where its device can: results 0, 1... of `e` are set then, and
// true is returned. The options reach `run` in their order.
bool call_host(Emission& e, const HostFunction& function, graph::OperandList operands,
               std::initializer_list<int64_t> options = {});

// The same for an operator that has no other lowering: where there is no such device, as in an
// exported program, it throws.
void must_call_host(Emission& e, const HostFunction& function, graph::OperandList operands,
                    std::initializer_list<int64_t> options = {});

// Whether programs for the tensor's device call host functions.
bool calls_host_functions(const at::Tensor& tensor);

}  // namespace torch_pjrt::aten
