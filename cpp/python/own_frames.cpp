#define Py_BUILD_CORE 1  // for the layout of frames

#include "python/own_frames.h"

#include <frameobject.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include <internal/pycore_frame.h>
#endif

namespace torch_pjrt::python {

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

using Frame = _PyInterpreterFrame;

OwnFrames::OwnFrames() noexcept {
  PyThreadState* const thread = PyGILState_GetThisThreadState();
  if (thread) frame_ = thread->cframe->current_frame;
}

Place OwnFrames::place() const noexcept {
  const auto* frame = static_cast<const Frame*>(frame_);
  return {frame->f_code, _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT))};
}

void OwnFrames::next() noexcept { frame_ = static_cast<Frame*>(frame_)->previous; }

#elif PY_VERSION_HEX < 0x030B0000

OwnFrames::OwnFrames() noexcept {
  PyThreadState* const thread = PyGILState_GetThisThreadState();
  if (thread) frame_ = thread->frame;
}

Place OwnFrames::place() const noexcept {
  const auto* frame = static_cast<const PyFrameObject*>(frame_);
  return {frame->f_code, frame->f_lasti * 2};
}

void OwnFrames::next() noexcept { frame_ = static_cast<PyFrameObject*>(frame_)->f_back; }

#else

OwnFrames::OwnFrames() noexcept = default;
Place OwnFrames::place() const noexcept { return {}; }
void OwnFrames::next() noexcept {}

#endif

int line_of(const Place& place) noexcept { return PyCode_Addr2Line(place.code, place.instruction); }

}  // namespace torch_pjrt::python
