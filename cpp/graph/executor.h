#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/cell.h"
#include "graph/compile_cache.h"
#include "graph/cut_policy.h"
#include "graph/trace.h"
#include "pjrt/client.h"

namespace torch_pjrt::graph {

// When recorded operators run.
enum class Mode : uint8_t {
  kLazy,   // at a read, a sync, an optimizer's step or the limit of the pending graph
  kEager,  // each at once, asynchronously
  kDebug,  // each at once, and waited for, so that an error comes at its own line
};

// A condition that an operator asks the device to check, such as indices within range: `failed` is
// a scalar i1.
struct Check {
  Value failed;
  const Operator* op = nullptr;
};

// What a failed check throws at the next read or sync.
class CheckError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Executes what is recorded for one device. Any thread may call any function; executions are one
// after another.
//
// Counters: execute.calls, execute.operators, execute.donated_bytes, execute.limit_cuts,
// execute.failures; timer: execute.seconds (the call, not the computation).
class Executor {
 public:
  Executor(std::shared_ptr<pjrt::Client> client, pjrt::Device device,
           std::shared_ptr<CompileCache> cache, int index);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int index() const noexcept { return index_; }
  pjrt::Device device() const noexcept { return device_; }
  const std::shared_ptr<pjrt::Client>& client() const noexcept { return client_; }
  PendingCells& pending_cells() noexcept { return pending_; }

  // To be called after an operator has set its cells; may execute, as the mode and the limit say.
  // In debug mode it throws the error of computing the node.
  void recorded(Node& node);

  // Adds a check to the next execution.
  void add_check(Check check);

  // Computes every pending cell. Returns when the execution is launched. A program that cannot be
  // compiled or launched leaves its error in the cells that depend on the cause, and in no other;
  // nothing is thrown for it.
  void execute() { execute(Value()); }

  // `execute`, then waits until the device has done all of it. Throws CheckError when a check of
  // any execution so far has failed.
  void synchronize();

  // Whether no execution is under way. Never waits: false also when that cannot be told at once.
  bool is_idle() noexcept;

  // The device buffer of a value, executed with all else that is pending if need be; not waited
  // for. Throws the error that the value carries. Moving the value in lets its inputs be donated.
  SharedBufferPtr buffer(Value value);

  // Waits for the checks of all executions so far; throws CheckError for the first that failed and
  // forgets the rest.
  void raise_failed_checks();

  // Settings of the process.
  static void set_mode(Mode mode) noexcept { mode_.store(mode, std::memory_order_relaxed); }
  static Mode mode() noexcept { return mode_.load(std::memory_order_relaxed); }
  static void set_donate(bool donate) noexcept { donate_.store(donate); }
  static bool donate() noexcept { return donate_.load(); }
  static void set_limit(size_t limit);
  static size_t limit() noexcept { return limit_.load(); }

 private:
  struct PendingChecks {
    SharedBufferPtr flags;
    std::vector<const Operator*> operators;
  };
  using Operators = std::vector<const Operator*>;
  static constexpr size_t kDefaultLimit = 10000;

  static std::vector<Executor*>& all();  // under the recording lock

  SharedBufferPtr execute(const Value& wanted);
  void raise_failure(Node& node);
  void compute_starts();
  Value take_checks(Operators& checked);
  void run(std::unique_ptr<Trace> trace);
  void run_again(std::vector<Value> roots);
  void launch(const Trace& trace);
  void materialise(const Trace& trace, std::vector<pjrt::Buffer> outputs);
  void fail(std::span<const Value> roots, std::span<const FailurePtr> failures);
  pjrt::Buffer upload_numbers(const Trace& trace) const;

  std::shared_ptr<pjrt::Client> client_;
  pjrt::Device device_;
  std::shared_ptr<CompileCache> cache_;
  int index_;
  NumberWidth number_width_;

  PendingCells pending_;                 // under the recording lock
  NumberSharing number_sharing_;         // under the recording lock
  std::vector<Check> checks_;            // under the recording lock
  CutPolicy cut_policy_{kDefaultLimit};  // under the recording lock

  std::mutex execution_mutex_;         // one execution at a time
  std::deque<pjrt::Event> in_flight_;  // under the execution mutex

  std::mutex pending_checks_mutex_;
  std::deque<PendingChecks> pending_checks_;

  static inline std::atomic<Mode> mode_{Mode::kLazy};
  static inline std::atomic<bool> donate_{true};
  static inline std::atomic<size_t> limit_{kDefaultLimit};
};

}  // namespace torch_pjrt::graph
