#include "graph/cell.h"

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
  std::swap(value_, value);
  link();
}

bool Cell::set_if(const Value& expected, const Value& value) {
  Value old = value;
  RecordingLock lock(recording_mutex());
  if (value_ != expected) return false;
  std::swap(value_, old);
  link();
  return true;
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
