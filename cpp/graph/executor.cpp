#include "graph/executor.h"

#include <algorithm>

#include "base/blocking_region.h"
#include "base/metrics.h"
#include "base/source_line.h"
#include "graph/capture.h"
#include "graph/lock.h"
#include "transfer/deferred_copies.h"

namespace torch_pjrt::graph {
namespace {

// Storages that start with a constant and are updated in place, from which on it pays to compute
// the constants apart: a program of its own costs some 50 ms.
constexpr size_t kFewestStarts = 8;

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

bool are_computed(std::span<const Value> values) {
  RecordingLock lock(recording_mutex());
  return std::all_of(values.begin(), values.end(), [](const Value& value) {
    const SharedBufferPtr& buffer = value.node->outputs()[value.index].buffer;
    return buffer && !buffer->failure;
  });
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
      const auto is_export = [](const Capture* capture) { return capture->with_text_; };
      if (std::ranges::none_of(captures_, is_export)) {
        keep_checks(std::move(buffer), std::move(checked));
      }
    }
  }
  RecordingLock lock(recording_mutex());
  return wanted ? wanted.node->outputs()[wanted.index].buffer : SharedBufferPtr();
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
  if (are_computed(roots)) {
    base::counter("execute.recovered").add();
    keep_checks(SharedBufferPtr(new SharedBuffer(std::move(failure))), {});
  }
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

}  // namespace torch_pjrt::graph
