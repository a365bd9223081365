#include "base/source_line.h"

#include <array>
#include <deque>
#include <exception>
#include <mutex>
#include <unordered_map>

#include "python/bindings.h"
#include "python/own_frames.h"

namespace torch_pjrt::python {
namespace {

// How far out the user's line is looked for.
constexpr int kMostFrames = 64;

struct PlaceHash {
  size_t operator()(const Place& place) const noexcept {
    return reinterpret_cast<size_t>(place.code) / 16 * 31 + static_cast<size_t>(place.instruction);
  }
};

struct Known {
  Place place;           // its code is owned for good, so that the address stays this code's
  uint32_t number = 0;   // 0 in an empty entry
  bool is_ours = false;  // in PyTorch or in this package: no user's line
};

struct Places {
  std::mutex mutex;
  std::unordered_map<Place, uint32_t, PlaceHash> numbers;
  std::deque<Known> all;  // number n is at n - 1
  std::array<std::string, 2> folders;
};

Places& places() {
  static auto* table = new Places;
  return *table;
}

std::string file_of(const Place& place) {
  const char* file = PyUnicode_AsUTF8(place.code->co_filename);
  if (file) return file;
  PyErr_Clear();
  return "?";
}

Known add(const Place& place) {
  const pybind11::gil_scoped_acquire gil;
  Places& table = places();
  const std::string file = file_of(place);
  bool is_ours = false;
  for (const std::string& folder : table.folders) is_ours = is_ours || file.starts_with(folder);
  std::lock_guard lock(table.mutex);
  const auto [found, is_new] =
      table.numbers.try_emplace(place, static_cast<uint32_t>(table.all.size() + 1));
  if (is_new) {
    table.all.push_back({place, found->second, is_ours});
    Py_INCREF(place.code);
  }
  return table.all[found->second - 1];
}

Known find(const Place& place) {
  // Without a lock for places that this thread has met lately.
  thread_local std::array<Known, 256> met;
  Known& known = met[PlaceHash()(place) % met.size()];
  if (known.number != 0 && known.place == place) [[likely]] {
    return known;
  }
  {
    Places& table = places();
    std::lock_guard lock(table.mutex);
    const auto found = table.numbers.find(place);
    if (found != table.numbers.end()) return known = table.all[found->second - 1];
  }
  return known = add(place);
}

// The innermost line that is the user's own; else the innermost of all.
uint32_t current() noexcept {
  try {
    uint32_t innermost = 0;
    OwnFrames frame;
    for (int i = 0; i < kMostFrames && frame; ++i, frame.next()) {
      const Known known = find(frame.place());
      if (!known.is_ours) return known.number;
      if (innermost == 0) innermost = known.number;
    }
    return innermost;
  } catch (const std::exception&) {
    return 0;  // out of memory: an error will do without its line
  }
}

// The user's line where the code is that of a compiled graph.
std::string line_in_graph(const Place& place) {
  namespace py = pybind11;
  try {
    const py::dict modules = py::module_::import("sys").attr("modules");
    const char* const name = "torch_pjrt._compile.user_lines";
    if (!modules.contains(name)) return {};
    const auto code = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(place.code));
    return modules[name].attr("of_code")(code, line_of(place)).cast<std::string>();
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("looking for the line of an error");
    return {};
  }
}

std::string describe(uint32_t line) {
  Places& table = places();
  Place place;
  {
    std::lock_guard lock(table.mutex);
    if (line > table.all.size()) return {};
    place = table.all[line - 1].place;
  }
  const pybind11::gil_scoped_acquire gil;
  const std::string in_graph = line_in_graph(place);
  return in_graph.empty() ? file_of(place) + ":" + std::to_string(line_of(place)) : in_graph;
}

// "/path/to/package/"
std::string folder_of(const char* package) {
  const auto file = pybind11::module_::import(package).attr("__file__").cast<std::string>();
  return file.substr(0, file.rfind('/') + 1);
}

}  // namespace

void keep_source_lines() {
  places().folders = {folder_of("torch"), folder_of("torch_pjrt")};
  base::set_source_line_hooks({current, describe});
}

}  // namespace torch_pjrt::python
