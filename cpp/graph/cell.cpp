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
