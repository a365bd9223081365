// One call of the plugin for each program, and how far the host may run ahead of the device.
#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>

#include "base/blocking_region.h"
#include "base/metrics.h"
#include "base/trace_range.h"
#include "graph/executor.h"

namespace torch_pjrt::graph {
namespace {

// Executions that may be launched ahead of the device, so that a host that runs ahead does not
// queue memory without end.
constexpr size_t kMostInFlight = 32;

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

bool gave_inputs_away(const Launch& program) {
  return std::any_of(program.inputs.begin(), program.inputs.end(),
                     [](const SharedBufferPtr& input) { return input->buffer.is_deleted(); });
}

}  // namespace

pjrt::Buffer Executor::upload_numbers(std::string_view bytes) const {
  const int64_t count = static_cast<int64_t>(bytes.size()) / static_cast<int64_t>(number_width_);
  pjrt::HostArray array;
  array.data = bytes.data();
  array.type = number_width_ == NumberWidth::k64 ? ElementType::kS64 : ElementType::kS32;
  array.dimensions = std::span(&count, 1);
  array.device = device_;
  return client_->buffer_from_host(array).buffer;
}

void Executor::launch(const Turn&, const Launch& program, std::vector<pjrt::Buffer>& outputs) {
  launch(program, outputs);
}

void Executor::launch(const Launch& program, std::vector<pjrt::Buffer>& outputs) {
  static base::Counter& calls = base::counter("execute.calls");
  static base::Counter& operators = base::counter("execute.operators");
  static base::Counter& donated_bytes = base::counter("execute.donated_bytes");
  static base::Counter& recovered = base::counter("execute.recovered");
  try {
    start(program, outputs);
  } catch (const pjrt::Error& error) {
    // Once more, for what passes: a program does nothing but compute its results.
    if (gave_inputs_away(program)) throw;
    start(program, outputs);
    recovered.add();
    keep_checks(SharedBufferPtr(new SharedBuffer(
                    std::make_shared<const Failure>(Failure{error.code(), error.what()}))),
                {});
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
  ++launched_;
  for (const SharedBufferPtr& input : program.inputs) {
    input->last_reader.store(launched_, std::memory_order_relaxed);
  }
}

bool Executor::may_be_read(const SharedBuffer& buffer) {
  if (buffer.is_read_elsewhere.load()) return true;
  const Turn turn(*this);
  while (!in_flight_.empty() && in_flight_.front().is_ready()) in_flight_.pop_front();
  // Of the earlier executions those that are not done may read it, too.
  return buffer.last_reader.load(std::memory_order_relaxed) > launched_ - in_flight_.size();
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

}  // namespace torch_pjrt::graph
