#include "graph/capture.h"

#include <utility>

namespace torch_pjrt::graph {
namespace {

thread_local int exports = 0;

}  // namespace

Capture::Capture(Executor& executor, bool with_text)
    : executor_(executor), with_text_(with_text), program_(std::make_unique<Program>()) {
  executor_.add_capture(*this);
  is_active_ = true;
  if (with_text_) ++exports;
}

Capture::~Capture() { stop(); }

bool Capture::exports_on_this_thread() noexcept { return exports > 0; }

void Capture::stop() {
  if (!std::exchange(is_active_, false)) return;
  executor_.remove_capture(*this);
  if (with_text_) --exports;
}

std::unique_ptr<Capture::Program> Capture::finish() {
  stop();
  if (unwritable_) std::rethrow_exception(unwritable_);
  if (reads_ != reads_before_) program_.reset();
  return std::move(program_);
}

void Capture::launched(const Trace& trace, const CompileCache::Executable& executable,
                       std::vector<Root> roots) {
  if (++launches_ > 1 || !program_) {
    program_.reset();
    return;
  }
  program_->executable = executable;
  for (const Trace::Leaf& leaf : trace.leaves()) {
    program_->leaves.push_back({leaf.buffer->id(), leaf.type, leaf.donated});
  }
  program_->roots = std::move(roots);
  program_->numbers = trace.pack_numbers();
  program_->random_words = trace.random_words();
  program_->operations = trace.operation_count();
  if (!with_text_) return;
  try {
    program_->text = trace.emit();
  } catch (const pjrt::Error&) {
    unwritable_ = std::current_exception();
  }
}

void Capture::checks(uint64_t buffer, const std::vector<const Operator*>& operators) {
  if (!program_) return;
  for (size_t i = 0; i < program_->roots.size(); ++i) {
    if (program_->roots[i].buffer == buffer) program_->checks = static_cast<int64_t>(i);
  }
  program_->checked = operators;
}

}  // namespace torch_pjrt::graph
