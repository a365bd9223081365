#pragma once

#include <pybind11/pybind11.h>

namespace torch_pjrt::python {

// Where a Python frame is: its code (borrowed from the frame) and a place in it.
struct Place {
  PyCodeObject* code = nullptr;
  int instruction = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// The Python frames of the calling thread, innermost first. PyTorch gives the GIL back before it
// calls an operator, so they are read without it: no other thread changes them meanwhile. On a
// Python whose frames are not known here there are none.
class OwnFrames {
 public:
  OwnFrames() noexcept;

  explicit operator bool() const noexcept { return frame_ != nullptr; }
  Place place() const noexcept;
  void next() noexcept;

 private:
  void* frame_ = nullptr;
};

// The line of a place. With the GIL.
int line_of(const Place& place) noexcept;

}  // namespace torch_pjrt::python
