#include "graph/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/blocking_region.h"
#include "base/metrics.h"
#include "base/source_line.h"
#include "base/trace_range.h"
#include "graph/capture.h"
#include "graph/emission.h"
#include "graph/lock.h"
#include "transfer/deferred_copies.h"
#include "transfer/device_to_host.h"
#include "transfer/host_addressing.h"

namespace torch_pjrt::graph {
namespace {

// Executions that may be launched ahead of the device, so that a host that runs ahead does not
// queue memory without end.
constexpr size_t kMostInFlight = 32;

// Storages that start with a constant and are updated in place, from which on it pays to compute
// the constants apart: a program of its own costs some 50 ms.
constexpr size_t kFewestStarts = 8;

// All checks of one execution in one array, so that they cost one output.
constexpr Operator kChecks{"torch_pjrt::checks", [](Emission& e) {
                             StableHloBuilder& b = e.builder();
                             Operands flags;
                             for (Operand flag : e.operands())
                               flags.push_back(b.reshape(flag, {1}));
                             e.result(b.concatenate(flags, 0));
                           }};

// The time on the device, for traces.
void trace_until(const pjrt::Event& complete, std::chrono::steady_clock::time_point launched,
                 int index) {
  static std::deque<std::string> tracks;  // never shrinks: events point into it
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  while (tracks.size() <= static_cast<size_t>(index)) {
    tracks.push_back("xla:" + std::to_string(tracks.size()));
  }
  const char* const track = tracks[static_cast<size_t>(index)].c_str();
  const auto note = [launched, track](const pjrt::Error*) noexcept {
    base::trace_work("program", track, launched, std::chrono::steady_clock::now());
  };
  base::expect_work();
  try {
    complete.on_ready(note);
  } catch (const pjrt::Error&) {
    note(nullptr);  // too short in the trace; the results are not lost for that
  }
}

// In place where the host can: these bytes are ours, and no transfer that a user asked for.
void read_flags(const pjrt::Client& client, const pjrt::Buffer& buffer,
                std::vector<uint8_t>& flags) {
  if (transfer::uses_host_memory(client)) {
    buffer.ready_event().await("read the device's checks");
    std::memcpy(flags.data(), buffer.device_pointer(), flags.size());
    return;
  }
  const auto count = static_cast<int64_t>(flags.size());
  transfer::device_to_host(client, buffer,
                           {.data = flags.data(), .dimensions = std::span(&count, 1)});
}

FailurePtr failure_of(const pjrt::Error& error) {
  return std::make_shared<const Failure>(Failure{error.code(), error.what()});
}

FailurePtr failure_of(const std::exception& error) {
  return std::make_shared<const Failure>(Failure{pjrt::ErrorCode::kInternal, error.what()});
}

// The failure of a program that computes one value, with the operator and the user's line.
FailurePtr named(const Failure& failure, const Node& node) {
  if (!node.is_operation()) return std::make_shared<const Failure>(failure);
  std::string message =
      failure.message + "; this computes the result of " + std::string(node.op().name);
  const std::string line = base::describe_source_line(node.source_line());
  if (!line.empty()) message += ", called at " + line;
  return std::make_shared<const Failure>(Failure{failure.code, std::move(message)});
}

void throw_failure(const SharedBufferPtr& buffer, std::string_view what_was_asked) {
  if (!buffer) {
    throw pjrt::Error(pjrt::ErrorCode::kInternal, what_was_asked,
                      "its value was not computed; this is a defect of torch-pjrt, please report "
                      "it");
  }
  if (buffer->failure) {
    throw pjrt::Error(buffer->failure->code, what_was_asked, buffer->failure->message);
  }
}

// Whether such an error lies with the device or the way to it, so that no part of the program would
// fare better.
bool is_of_device(pjrt::ErrorCode code) noexcept {
  switch (code) {
    case pjrt::ErrorCode::kCancelled:
    case pjrt::ErrorCode::kDeadlineExceeded:
    case pjrt::ErrorCode::kAborted:
    case pjrt::ErrorCode::kUnavailable:
    case pjrt::ErrorCode::kDataLoss:
    case pjrt::ErrorCode::kUnauthenticated:
      return true;
    default:
      return false;
  }
}

bool gave_inputs_away(const Launch& program) {
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [](const SharedBufferPtr& input) { return input->buffer.is_deleted(); });
}

// An error after which the values were computed all the same: counted, and told once.
void note_recovery(const char* error) {
  base::counter("execute.recovered").add();
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  std::fprintf(stderr,
               "torch_pjrt: warning: %s; another attempt computed the values (later ones are only "
               "counted, as execute.recovered)\n",
               error);
}

bool are_computed(std::span<const Value> values) {
  RecordingLock lock(recording_mutex());
  return std::all_of(values.begin(), values.end(), [](const Value& value) {
    const SharedBufferPtr& buffer = value.node->outputs()[value.index].buffer;
    return buffer && !buffer->failure;
  });
}

bool computes(const pjrt::Buffer& buffer) noexcept {
  try {
    buffer.ready_event().await();
    return true;
  } catch (const pjrt::Error&) {
    return false;
  }
}

size_t operand_count(std::span<const Value> values) {
  size_t count = 0;
  for (const Value& value : values) count += value.node->operands().size();
  return count;
}

bool same_node(const std::vector<Value>& roots) {
  return std::all_of(roots.begin(), roots.end(),
                     [&](const Value& root) { return root.node == roots.front().node; });
}

}  // namespace

Executor::Executor(std::shared_ptr<pjrt::Client> client, pjrt::Device device,
                   std::shared_ptr<CompileCache> cache, int index)
    : client_(std::move(client)),
      device_(device),
      cache_(std::move(cache)),
      index_(index),
      number_width_(client_->supports(ElementType::kF64) && client_->supports(ElementType::kS64)
                        ? NumberWidth::k64
                        : NumberWidth::k32) {
  RecordingLock lock(recording_mutex());
  cut_policy_.set_limit(limit());
  all().push_back(this);
}

Executor::~Executor() {
  RecordingLock lock(recording_mutex());
  std::erase(all(), this);
}

std::vector<Executor*>& Executor::all() {
  static auto* const executors = new std::vector<Executor*>;
  return *executors;
}

void Executor::set_limit(size_t limit) {
  RecordingLock lock(recording_mutex());
  limit_.store(limit);
  for (Executor* executor : all()) executor->cut_policy_.set_limit(limit);
}

void Executor::recorded(Node& node) {
  switch (mode()) {
    case Mode::kLazy: {
      {
        RecordingLock lock(recording_mutex());
        if (!cut_policy_.note(node.is_operation() ? node.op().id + node.outputs()[0].type.rank()
                                                  : 0)) {
          return;
        }
      }
      base::counter("execute.limit_cuts").add();
      return execute();
    }
    case Mode::kEager:
      return execute();
    case Mode::kDebug:
      execute();
      synchronize();
      return raise_failure(node);
  }
}

void Executor::raise_failure(Node& node) {
  for (uint32_t i = 0; i < node.outputs().size(); ++i) {
    SharedBufferPtr buffer;
    {
      RecordingLock lock(recording_mutex());
      buffer = node.outputs()[i].buffer;
    }
    if (!buffer) continue;  // nothing holds this output
    throw_failure(buffer, node.name());
    buffer->buffer.ready_event().await(node.name());
  }
}

void Executor::add_check(Check check) {
  RecordingLock lock(recording_mutex());
  checks_.push_back(std::move(check));
}

// The checks recorded so far as one value; empty when there are none.
Value Executor::take_checks(Operators& checked) {
  std::vector<Check> checks;
  {
    RecordingLock lock(recording_mutex());
    checks.swap(checks_);
  }
  if (checks.empty()) return {};
  std::vector<Value> failed;
  for (Check& check : checks) {
    failed.push_back(std::move(check.failed));
    checked.push_back(check.op);
  }
  const Type type{ElementType::kPred, Dimensions{static_cast<int64_t>(failed.size())}};
  return {Node::operation(kChecks, failed, {}, type), 0};
}

// The mutex is held while other threads may take the GIL: not to be waited for with it.
Executor::Turn::Turn(Executor& executor) : executor_(executor) {
  if (executor_.execution_mutex_.try_lock()) return;
  base::BlockingRegion region;
  executor_.execution_mutex_.lock();
}

Executor::Turn::~Turn() { executor_.execution_mutex_.unlock(); }

SharedBufferPtr Executor::execute(const Value& wanted) {
  SharedBuffer::check_not_forked();
  const Turn turn(*this);
  return execute_within_turn(wanted);
}

SharedBufferPtr Executor::execute_within_turn(const Value& wanted) {
  compute_starts();
  Operators checked;
  const Value flags = take_checks(checked);
  std::unique_ptr<Trace> trace;
  {
    // One lock for the list and the trace: references are counted as they are at one moment.
    RecordingLock lock(recording_mutex());
    cut_policy_.executed();
    std::vector<Trace::Root> roots;
    pending_.for_each([&](Cell& cell) { roots.push_back({cell.value(), cell.home()}); });
    if (wanted && !wanted.node->is_data()) roots.push_back({wanted});
    if (flags) roots.push_back({flags});
    if (!roots.empty()) {
      trace = std::make_unique<Trace>(std::move(roots), number_width_, donate(), number_sharing_);
    }
  }
  if (trace) run(std::move(trace));
  if (flags) {
    SharedBufferPtr buffer;
    {
      RecordingLock lock(recording_mutex());
      buffer = flags.node->outputs()[0].buffer;
    }
    if (!buffer->failure) {
      for (Capture* capture : captures_) capture->checks(buffer->id(), checked);
      keep_checks(std::move(buffer), std::move(checked));
    }
  }
  RecordingLock lock(recording_mutex());
  return wanted ? wanted.node->outputs()[wanted.index].buffer : SharedBufferPtr();
}

void Executor::keep_checks(SharedBufferPtr flags, std::vector<const Operator*> operators) {
  std::lock_guard lock(pending_checks_mutex_);
  pending_checks_.push_back({std::move(flags), std::move(operators)});
}

void Executor::add_capture(Capture& capture) {
  const Turn turn(*this);
  capture.reads_before_ = reads_.load();
  captures_.push_back(&capture);
}

void Executor::remove_capture(Capture& capture) {
  const Turn turn(*this);
  capture.reads_ = reads_.load();
  std::erase(captures_, &capture);
}

// An optimizer fills its state with zeros and updates it in place, all in its first step. With the
// zeros as constants that step's program would be another than that of all later ones; so they
// are computed apart.
void Executor::compute_starts() {
  std::unique_ptr<Trace> trace;
  std::vector<Value> released;
  {
    RecordingLock lock(recording_mutex());
    std::vector<Trace::Root> starts;
    std::vector<Cell*> started;
    pending_.for_each([&](Cell& cell) {
      const Value& start = cell.start();
      if (!start) return;
      if (start.node->is_operation() && start.node->reference_count() > 1) {
        starts.push_back({start});
        started.push_back(&cell);
      } else {
        released.push_back(cell.take_start());
      }
    });
    if (starts.size() < kFewestStarts) {
      for (Cell* cell : started) released.push_back(cell->take_start());
      return;
    }
    trace = std::make_unique<Trace>(std::move(starts), number_width_, /*donate=*/false,
                                    number_sharing_);
  }
  run(std::move(trace));
  RecordingLock lock(recording_mutex());
  pending_.for_each([&](Cell& cell) {
    if (cell.start() && cell.start().node->is_data()) released.push_back(cell.take_start());
  });
}

void Executor::run(std::unique_ptr<Trace> trace) {
  if (trace->has_failures()) {
    for (Capture* capture : captures_) capture->failed();
    std::vector<Value> sound;
    for (size_t i = 0; i < trace->roots().size(); ++i) {
      if (!trace->failures()[i]) sound.push_back(trace->roots()[i]);
    }
    fail(trace->roots(), trace->failures());
    trace.reset();
    return run_again(std::move(sound));
  }
  FailurePtr failure;
  try {
    launch(*trace);
    return;
  } catch (const pjrt::Error& error) {
    failure = failure_of(error);
  } catch (const std::exception& error) {
    failure = failure_of(error);
  }
  for (Capture* capture : captures_) capture->failed();
  const std::vector<Value> roots = trace->roots();
  const bool is_one = same_node(roots);
  for (const Trace::Leaf& leaf : trace->leaves()) {
    if (leaf.donated && leaf.buffer->buffer.is_deleted()) leaf.buffer->failure = failure;
  }
  if (is_one || is_of_device(failure->code)) {
    base::counter("execute.failures").add();
    if (is_one) failure = named(*failure, *roots.front().node);
    return fail(roots, std::vector<FailurePtr>(roots.size(), failure));
  }
  // Find out which of the values the error belongs to, half by half: the others are computed
  // without it.
  trace.reset();
  const auto middle = roots.begin() + static_cast<std::ptrdiff_t>(roots.size() / 2);
  run_again({roots.begin(), middle});
  run_again({middle, roots.end()});
  if (are_computed(roots)) note_recovery(failure->message.c_str());
}

// Computes those of the values that are still pending, without giving away what they read.
void Executor::run_again(std::vector<Value> roots) {
  std::erase_if(roots, [](const Value& root) { return root.node->is_data(); });
  if (roots.empty()) return;
  std::unique_ptr<Trace> trace;
  {
    RecordingLock lock(recording_mutex());
    std::vector<Trace::Root> again;
    again.reserve(roots.size());
    for (Value& root : roots) again.push_back({std::move(root)});
    trace =
        std::make_unique<Trace>(std::move(again), number_width_, /*donate=*/false, number_sharing_);
  }
  run(std::move(trace));
}

pjrt::Buffer Executor::upload_numbers(std::string_view bytes) const {
  const int64_t count = static_cast<int64_t>(bytes.size()) / static_cast<int64_t>(number_width_);
  pjrt::HostArray array;
  array.data = bytes.data();
  array.type = number_width_ == NumberWidth::k64 ? ElementType::kS64 : ElementType::kS32;
  array.dimensions = std::span(&count, 1);
  array.device = device_;
  return client_->buffer_from_host(array).buffer;
}

void Executor::launch(const Trace& trace) {
  const CompileCache::Executable executable = cache_->get(trace);
  const std::string numbers = trace.pack_numbers();
  std::vector<SharedBufferPtr> inputs;
  inputs.reserve(trace.leaves().size());
  int64_t donated = 0;
  for (const Trace::Leaf& leaf : trace.leaves()) {
    inputs.push_back(leaf.buffer);
    if (leaf.donated) donated += leaf.type.byte_count();
  }
  std::vector<pjrt::Buffer> outputs;
  launch({.executable = *executable,
          .inputs = inputs,
          .numbers = numbers,
          .operations = trace.operation_count(),
          .donated_bytes = donated},
         outputs);
  std::vector<SharedBufferPtr> buffers;
  buffers.reserve(outputs.size());
  for (pjrt::Buffer& output : outputs) buffers.emplace_back(new SharedBuffer(std::move(output)));
  for (Capture* capture : captures_) {
    std::vector<Capture::Root> roots;
    for (size_t i = 0; i < buffers.size(); ++i) {
      roots.push_back({buffers[i]->id(), trace.roots()[i].type()});
    }
    capture->launched(trace, executable, std::move(roots));
  }
  materialise(trace, std::move(buffers));
}

void Executor::launch(const Turn&, const Launch& program, std::vector<pjrt::Buffer>& outputs) {
  launch(program, outputs);
}

void Executor::launch(const Launch& program, std::vector<pjrt::Buffer>& outputs) {
  static base::Counter& calls = base::counter("execute.calls");
  static base::Counter& operators = base::counter("execute.operators");
  static base::Counter& donated_bytes = base::counter("execute.donated_bytes");
  try {
    start(program, outputs);
  } catch (const pjrt::Error& error) {
    // Once more, for what passes: a program does nothing but compute its results.
    if (gave_inputs_away(program)) throw;
    start(program, outputs);
    note_recovery(error.what());
  }
  calls.add();
  operators.add(static_cast<int64_t>(program.operations));
  donated_bytes.add(program.donated_bytes);
}

void Executor::start(const Launch& program, std::vector<pjrt::Buffer>& outputs) {
  static base::Timer& seconds = base::timer("execute.seconds");
  pjrt::Buffer numbers;
  base::InlineVector<PJRT_Buffer*, 32> arguments;
  for (const SharedBufferPtr& input : program.inputs) arguments.push_back(input->buffer.get());
  if (program.uploaded) {
    arguments.push_back(program.uploaded->buffer.get());
  } else if (!program.numbers.empty()) {
    numbers = upload_numbers(program.numbers);
    arguments.push_back(numbers.get());
  }

  while (!in_flight_.empty() && in_flight_.front().is_ready()) in_flight_.pop_front();
  if (in_flight_.size() >= kMostInFlight) {
    base::BlockingRegion region;
    try {
      in_flight_.front().await();
    } catch (const pjrt::Error&) {
      // The outputs of that execution carry the error.
    }
    in_flight_.pop_front();
  }

  pjrt::Event complete;
  const auto launched = std::chrono::steady_clock::now();
  {
    const base::TraceRange range("execute");
    pjrt::ExecuteOptions options;
    options.device = device_;
    options.may_block = true;
    program.executable.execute({arguments.data(), arguments.size()}, options, outputs, &complete);
  }
  seconds.add(std::chrono::steady_clock::now() - launched);
  if (base::is_tracing()) trace_until(complete, launched, index_);
  in_flight_.push_back(std::move(complete));
}

void Executor::materialise(const Trace& trace, std::vector<SharedBufferPtr> buffers) {
  std::vector<Value> released;
  released.reserve(operand_count(trace.roots()));
  RecordingLock lock(recording_mutex());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Value& root = trace.roots()[i];
    root.node->outputs()[root.index].buffer = std::move(buffers[i]);
  }
  for (const Value& root : trace.roots()) {
    if (!root.node->is_data()) root.node->become_data(released);
  }
}

void Executor::fail(std::span<const Value> roots, std::span<const FailurePtr> failures) {
  std::vector<SharedBufferPtr> buffers;
  for (const FailurePtr& failure : failures) {
    buffers.push_back(failure ? SharedBufferPtr(new SharedBuffer(failure)) : SharedBufferPtr());
  }
  std::vector<Value> released;
  released.reserve(operand_count(roots));
  RecordingLock lock(recording_mutex());
  for (size_t i = 0; i < roots.size(); ++i) {
    if (!failures[i]) continue;
    for (Node::Output& output : roots[i].node->outputs()) {
      if (!output.buffer) output.buffer = buffers[i];
    }
    if (!roots[i].node->is_data()) roots[i].node->become_data(released);
  }
}

void Executor::synchronize() {
  execute();
  {
    const Turn turn(*this);
    base::BlockingRegion region;
    for (const pjrt::Event& event : in_flight_) {
      try {
        event.await();
      } catch (const pjrt::Error&) {
        // The outputs of that execution carry the error.
      }
    }
    in_flight_.clear();
  }
  transfer::DeferredCopies::wait();
  raise_failed_checks();
  transfer::DeferredCopies::wait_and_throw();
}

bool Executor::is_idle() noexcept {
  std::unique_lock lock(execution_mutex_, std::try_to_lock);
  if (!lock) return false;
  try {
    while (!in_flight_.empty() && in_flight_.front().is_ready()) in_flight_.pop_front();
  } catch (const pjrt::Error&) {
    return false;
  }
  return in_flight_.empty();
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a value that is moved in is given up
SharedBufferPtr Executor::buffer(Value value) {
  SharedBuffer::check_not_forked();
  reads_.fetch_add(1, std::memory_order_relaxed);
  SharedBufferPtr buffer;
  {
    RecordingLock lock(recording_mutex());
    if (value.node->is_data()) buffer = value.node->outputs()[value.index].buffer;
  }
  if (!buffer) buffer = execute(value);
  throw_failure(buffer, "read a tensor");
  return buffer;
}

void Executor::raise_failed_checks() {
  std::deque<PendingChecks> pending;
  {
    std::lock_guard lock(pending_checks_mutex_);
    pending.swap(pending_checks_);
  }
  while (!pending.empty()) {
    const PendingChecks checks = std::move(pending.front());
    pending.pop_front();
    std::vector<uint8_t> failed(checks.operators.size());
    try {
      read_flags(*client_, checks.flags->buffer, failed);
    } catch (const pjrt::Error&) {
      // The program itself failed: its outputs say so, and nothing else.
      if (!computes(checks.flags->buffer)) continue;
      pending.push_front(checks);  // unread: for the next time
      std::lock_guard lock(pending_checks_mutex_);
      pending_checks_.insert(pending_checks_.begin(), pending.begin(), pending.end());
      throw;
    }
    const auto first = std::find(failed.begin(), failed.end(), 1);
    if (first == failed.end()) continue;
    const std::string name(checks.operators[static_cast<size_t>(first - failed.begin())]->name);
    // A whole message, of what is no index (see aten/checks.h).
    if (const size_t colon = name.find(": "); colon != std::string::npos) {
      throw pjrt::Error(
          pjrt::ErrorCode::kFailedPrecondition, name.substr(0, colon),
          name.substr(colon + 2) + "; or find the call with torch_pjrt.config.mode = 'debug'");
    }
    throw CheckError(name +
                     ": index out of range; the device read or wrote another element instead; got "
                     "an index outside the dimension, expected -size <= index < size; check the "
                     "indices, or find the call with torch_pjrt.config.mode = 'debug'");
  }
}

}  // namespace torch_pjrt::graph
