#include "aten/host_function.h"

#include <ATen/Parallel.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "aten/tensor.h"
#include "aten/types.h"
#include "graph/executor.h"
#include "pjrt/error.h"

namespace torch_pjrt::aten {
namespace {

// Of buffers without elements none: XLA's CPU compiler divides by zero where it reorders them.
int64_t rank_by_columns(MatrixOrder order, int64_t rank, bool any_empty) {
  return order == MatrixOrder::kByColumns && rank >= 2 && !any_empty ? rank : 0;
}

bool is_empty(const pjrt::ForeignBuffer& buffer) {
  return c10::multiply_integers(buffer.dimensions) == 0;
}

at::Tensor tensor_of(const pjrt::ForeignBuffer& buffer, int64_t rank_by_columns) {
  const at::IntArrayRef sizes(buffer.dimensions.data(), buffer.dimensions.size());
  const at::TensorOptions options(scalar_type(buffer.element));
  if (static_cast<int64_t>(sizes.size()) != rank_by_columns) {
    return at::from_blob(buffer.data, sizes, options);
  }
  const auto strides = at::native::batched_matrix_contiguous_strides(sizes, /*f_contig=*/true);
  return at::from_blob(buffer.data, sizes, strides, options);
}

// OpenMP keeps a team of threads for every thread that ever asked for one, and the device has many
// threads: from this one alone are large calls made, one after another.
class LargeCalls {
 public:
  // Returns when `call` has run; throws what it threw.
  void run(std::function<void()> call) {
    std::packaged_task<void()> task(std::move(call));
    std::future<void> done = task.get_future();
    {
      std::lock_guard lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
      waiting_.push_back(std::move(task));
    }
    arrived_.notify_one();
    done.get();
  }

 private:
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return !waiting_.empty(); });
      std::packaged_task<void()> task = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::packaged_task<void()>> waiting_;
  std::thread thread_;
};

LargeCalls& large_calls() {
  static auto* const calls = new LargeCalls;  // its thread lives as long as the process
  return *calls;
}

// From about here on do PyTorch's and LAPACK's kernels share the work among threads.
constexpr int64_t kManyElements = 8192;

void run_tensors(const pjrt::ForeignCall& call, MatrixOrder order, void (*run)(HostCall&)) {
  const at::AutoDispatchBelowADInplaceOrView without_autograd;
  const bool any_empty =
      std::ranges::any_of(call.arguments, is_empty) || std::ranges::any_of(call.results, is_empty);
  const auto rank_of_first = static_cast<int64_t>(call.arguments[0].dimensions.size());
  const int64_t rank = rank_by_columns(order, rank_of_first, any_empty);
  HostCall tensors{{}, {}, call.options};
  for (const pjrt::ForeignBuffer& buffer : call.arguments) {
    tensors.arguments.push_back(tensor_of(buffer, 0));
  }
  for (const pjrt::ForeignBuffer& buffer : call.results) {
    tensors.results.push_back(tensor_of(buffer, rank));
  }
  try {
    run(tensors);
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

}  // namespace

void run_on_host_tensors(const pjrt::ForeignCall& call, MatrixOrder order, void (*run)(HostCall&)) {
  int64_t count = 0;
  for (const pjrt::ForeignBuffer& buffer : call.arguments) {
    count += c10::multiply_integers(buffer.dimensions);
  }
  if (count >= kManyElements) {
    return large_calls().run([&] {
      at::init_num_threads();  // as many as torch.set_num_threads last said, to whichever thread
      run_tensors(call, order, run);
    });
  }
  const c10::ParallelGuard on_this_thread_alone(true);
  run_tensors(call, order, run);
}

bool call_host(Emission& e, const HostFunction& function, graph::OperandList operands,
               std::initializer_list<int64_t> options) {
  StableHloBuilder& b = e.builder();
  if (!b.calls_host_functions()) return false;
  std::vector<graph::Type> types;
  for (size_t i = 0; i < e.result_count(); ++i) types.push_back(e.result_type(i));
  const auto is_empty = [](const graph::Type& type) { return type.element_count() == 0; };
  const bool any_empty = std::ranges::any_of(types, is_empty) ||
                         std::ranges::any_of(operands, is_empty, &Operand::type);
  const Operands results =
      b.host_call(function.function, operands, types, graph::Ints(options),
                  rank_by_columns(function.order, operands[0].rank(), any_empty));
  for (size_t i = 0; i < types.size(); ++i) e.result(i, results[i]);
  return true;
}

void must_call_host(Emission& e, const HostFunction& function, graph::OperandList operands,
                    std::initializer_list<int64_t> options) {
  if (call_host(e, function, operands, options)) return;
  throw pjrt::Error(pjrt::ErrorCode::kUnimplemented,
                    "lower " + std::string(e.operator_name()) + " to StableHLO",
                    "there is no such operation: on this device the program calls PyTorch's own; "
                    "compute it outside of what is exported");
}

bool calls_host_functions(const at::Tensor& tensor) {
  return pjrt::calls_host_functions(*executor_of(tensor).client());
}

}  // namespace torch_pjrt::aten
