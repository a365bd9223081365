#pragma once

#include "graph/node.h"

namespace torch_pjrt::graph {

class Executor;

// The contents of one storage: a value whose row-major order is the order of the elements in the
// storage. Every tensor that views the storage reads and writes through the same cell.
//
// A cell whose value is not yet device data is on its executor's list of pending cells: those are
// what the next execution computes. Any thread may read, set and destroy a cell.
class Cell {
 public:
  explicit Cell(Executor& executor) noexcept : executor_(&executor) {}
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  ~Cell();

  // The current value; empty before the first `set`.
  Value get() const;
  const Value& value() const noexcept { return value_; }  // under the recording lock

  // Replaces the contents. The old value is released outside the lock.
  void set(Value value);

  // The same under the recording lock. Returns the old contents, for the caller to release outside
  // of it.
  Value exchange(Value value) noexcept {
    replace(value);
    return value;
  }

  // Replaces the contents if they still are `expected`. Who writes a part of a storage merges it
  // into the contents that were read; another thread may have written another part meanwhile.
  bool set_if(const Value& expected, const Value& value);

  Executor& executor() const noexcept { return *executor_; }

  // The id of the device buffer that the cell held last, 0 before the first one: where a value
  // that replaces it had best be put. Under the recording lock.
  uint64_t home() const noexcept { return home_; }

  // The pending constant that the storage was filled with before anything else was written to it,
  // where what was written reads it. Under the recording lock.
  const Value& start() const noexcept { return start_; }

  // Once the start is device data: it is the cell's home. Returns it, for the caller to release
  // outside the lock. Under the recording lock.
  Value take_start() noexcept;

  // Scratch of the replay that visits this cell; see next_visit. Under the recording lock.
  uint64_t visit = 0;
  uint32_t position = 0;

 private:
  friend class PendingCells;

  void replace(Value& value) noexcept;
  void settle(const Value& data) noexcept;
  void unlink() noexcept;
  void link() noexcept;

  Executor* executor_;
  Value value_;
  uint64_t home_ = 0;
  Value start_;
  Cell* previous_ = nullptr;
  Cell* next_ = nullptr;
};

// The pending cells of one executor, oldest first. Used under the recording lock.
class PendingCells {
 public:
  void append(Cell& cell) noexcept;
  bool empty() const noexcept { return first_ == nullptr; }

  // Calls `visit(cell)` for each pending cell; drops those whose value has become data.
  template <typename Visit>
  void for_each(Visit visit) {
    for (Cell* cell = first_; cell;) {
      Cell* next = cell->next_;
      if (cell->value_.node->is_data()) {
        remove(*cell);
      } else {
        visit(*cell);
      }
      cell = next;
    }
  }

 private:
  friend class Cell;
  void remove(Cell& cell) noexcept;
  bool contains(const Cell& cell) const noexcept {
    return cell.previous_ || cell.next_ || first_ == &cell;
  }

  Cell* first_ = nullptr;
  Cell* last_ = nullptr;
};

}  // namespace torch_pjrt::graph
