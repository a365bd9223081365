#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/cell.h"
#include "graph/compile_cache.h"
#include "graph/cut_policy.h"
#include "graph/trace.h"
#include "pjrt/client.h"

namespace torch_pjrt::graph {

class Capture;

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

// The same of a check whose name begins with "linalg." or "cholesky": torch.linalg.LinAlgError.
class LinearAlgebraError : public pjrt::Error {
 public:
  using pjrt::Error::Error;
};

// One execution of a program on given buffers.
struct Launch {
  const pjrt::LoadedExecutable& executable;
  std::span<const SharedBufferPtr> inputs;
  std::string_view numbers;          // packed words, uploaded behind the inputs; may be empty
  SharedBuffer* uploaded = nullptr;  // or these, where they were uploaded before
  size_t operations = 0;             // for execute.operators
  int64_t donated_bytes = 0;         // for execute.donated_bytes
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

  // `execute`, then waits until the device has done all of it. Throws what raise_failed_checks()
  // throws.
  void synchronize();

  // The right to execute: the executions of other threads wait until it is gone. Waits for theirs,
  // in a BlockingRegion. Not under the recording lock.
  class Turn {
   public:
    explicit Turn(Executor& executor);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Executor& executor_;
  };

  // `execute`, by who has the turn.
  void execute(const Turn&) { execute_within_turn(Value()); }

  // Launches a program, by who has the turn; `outputs` gets its results, which may not be ready
  // yet. May wait for earlier executions. A second attempt is made where the first gave nothing
  // away, and its error kept. Throws pjrt::Error if nothing was launched; inputs may be gone then.
  void launch(const Turn&, const Launch& program, std::vector<pjrt::Buffer>& outputs);

  // Whether anything waits to be executed. Under the recording lock.
  bool has_pending() const noexcept { return !pending_.empty() || !checks_.empty(); }

  // Whether work that is under way may read the buffer. What is recorded and not launched does not
  // count. Never waits for the device.
  bool may_be_read(const SharedBuffer& buffer);

  // Host numbers, packed, as the device array that a program reads them from.
  pjrt::Buffer upload_numbers(std::string_view bytes) const;

  // Keeps the results of a launched program's checks for the next read or sync: an array of i1, one
  // for each operator; or a failure that no value carries, since another attempt computed them all.
  void keep_checks(SharedBufferPtr flags, std::vector<const Operator*> operators);

  // `capture` sees all launches and reads from now on, until it is removed. It must outlive that.
  void add_capture(Capture& capture);
  void remove_capture(Capture& capture);

  // How host numbers are packed for this device's programs.
  NumberWidth number_width() const noexcept { return number_width_; }

  CompileCache& programs() noexcept { return *cache_; }

  // Whether no execution is under way. Never waits: false also when that cannot be told at once.
  bool is_idle() noexcept;

  // The device buffer of a value, executed with all else that is pending if need be; not waited
  // for. Throws the error that the value carries. Moving the value in lets its inputs be donated.
  SharedBufferPtr buffer(Value value);

  // Waits for the checks of all executions so far; throws CheckError for the first that failed and
  // forgets the rest, or an error that keep_checks() got; what is behind that waits for next time.
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
  SharedBufferPtr execute_within_turn(const Value& wanted);
  void raise_failure(Node& node);
  void compute_starts();
  Value take_checks(Operators& checked);
  void run(std::unique_ptr<Trace> trace);
  void run_again(std::vector<Value> roots);
  void launch(const Trace& trace);
  void start(const Launch& program, std::vector<pjrt::Buffer>& outputs);
  void launch(const Launch& program, std::vector<pjrt::Buffer>& outputs);
  void materialise(const Trace& trace, std::vector<SharedBufferPtr> buffers);
  void fail(std::span<const Value> roots, std::span<const FailurePtr> failures);

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
  uint64_t launched_ = 0;              // executions so far; under the execution mutex
  std::vector<Capture*> captures_;     // under the execution mutex
  std::atomic<uint64_t> reads_{0};

  std::mutex pending_checks_mutex_;
  std::deque<PendingChecks> pending_checks_;

  static inline std::atomic<Mode> mode_{Mode::kLazy};
  static inline std::atomic<bool> donate_{true};
  static inline std::atomic<size_t> limit_{kDefaultLimit};
};

}  // namespace torch_pjrt::graph
