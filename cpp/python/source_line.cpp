#include "base/source_line.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "python/bindings.h"

// After pybind11, which brings Python.h.
#include <frameobject.h>

namespace torch_pjrt::python {
namespace {

struct Place {
  PyCodeObject* code;  // owned for good, so that the address stays this code's
  int instruction;
  friend bool operator==(const Place&, const Place&) = default;
};

struct PlaceHash {
  size_t operator()(const Place& place) const noexcept {
    return reinterpret_cast<size_t>(place.code) * 31 + static_cast<size_t>(place.instruction);
  }
};

struct Places {
  std::mutex mutex;
  std::unordered_map<Place, uint32_t, PlaceHash> numbers;
  std::deque<Place> places;  // number n is at n - 1
};

Places& places() {
  static auto* table = new Places;
  return *table;
}

int instruction_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return PyFrame_GetLineNumber(frame);
#endif
}

int line_of(const Place& place) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyCode_Addr2Line(place.code, place.instruction);
#else
  return place.instruction;
#endif
}

// Autograd's threads run without the GIL and have no line of their own.
uint32_t current() noexcept {
  if (!PyGILState_Check()) return 0;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return 0;
  const Place place{PyFrame_GetCode(frame), instruction_of(frame)};
  Places& table = places();
  std::lock_guard lock(table.mutex);
  const auto [found, is_new] =
      table.numbers.try_emplace(place, static_cast<uint32_t>(table.places.size() + 1));
  if (is_new) {
    table.places.push_back(place);
  } else {
    Py_DECREF(place.code);
  }
  return found->second;
}

std::string describe(uint32_t line) {
  Places& table = places();
  Place place;
  {
    std::lock_guard lock(table.mutex);
    if (line > table.places.size()) return {};
    place = table.places[line - 1];
  }
  pybind11::gil_scoped_acquire gil;
  const char* file = PyUnicode_AsUTF8(place.code->co_filename);
  if (!file) {
    PyErr_Clear();
    file = "?";
  }
  return std::string(file) + ":" + std::to_string(line_of(place));
}

}  // namespace

void keep_source_lines() { base::set_source_line_hooks({current, describe}); }

}  // namespace torch_pjrt::python
