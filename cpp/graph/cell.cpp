#include "graph/cell.h"

#include <utility>

#include "graph/executor.h"
#include "graph/lock.h"

namespace torch_pjrt::graph {

Cell::~Cell() {
  RecordingLock lock(recording_mutex());
  unlink();
}

void Cell::unlink() noexcept {
  PendingCells& pending = executor_->pending_cells();
  if (pending.contains(*this)) pending.remove(*this);
}

Value Cell::get() const {
  RecordingLock lock(recording_mutex());
  return value_;
}

void Cell::set(Value value) {
  RecordingLock lock(recording_mutex());
  replace(value);
}

bool Cell::set_if(const Value& expected, const Value& value) {
  Value old = value;
  RecordingLock lock(recording_mutex());
  if (value_ != expected) return false;
  replace(old);
  return true;
}

// Exchanges the value, so that the caller releases the old one outside the lock.
void Cell::replace(Value& value) noexcept {
  if (value_) {
    if (value_.node->is_data()) {
      settle(value_);
    } else if (home_ == 0 && !start_ && value_.node->operands().empty()) {
      start_ = value_;
    }
  }
  std::swap(value_, value);
  link();
}

void Cell::settle(const Value& data) noexcept {
  const SharedBufferPtr& buffer = data.node->outputs()[data.index].buffer;
  if (buffer) home_ = buffer->id();
}

Value Cell::take_start() noexcept {
  if (start_ && start_.node->is_data()) settle(start_);
  return std::exchange(start_, Value());
}

// Puts the cell on the list of pending cells, or takes it off, as its value asks.
void Cell::link() noexcept {
  if (value_.node->is_data()) {
    unlink();
  } else if (!executor_->pending_cells().contains(*this)) {
    executor_->pending_cells().append(*this);
  }
}

void PendingCells::append(Cell& cell) noexcept {
  cell.previous_ = last_;
  (last_ ? last_->next_ : first_) = &cell;
  last_ = &cell;
}

void PendingCells::remove(Cell& cell) noexcept {
  (cell.previous_ ? cell.previous_->next_ : first_) = cell.next_;
  (cell.next_ ? cell.next_->previous_ : last_) = cell.previous_;
  cell.previous_ = cell.next_ = nullptr;
}

}  // namespace torch_pjrt::graph
