#include <pybind11/stl.h>

#include "base/metrics.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

// Timers become two entries, so that a snapshot is a flat dict of numbers: `name.calls` and
// `name` (seconds).
py::dict snapshot() {
  py::dict figures;
  for (const auto& [name, value] : base::snapshot()) {
    if (const auto* count = std::get_if<int64_t>(&value)) {
      figures[py::str(name)] = *count;
    } else {
      const auto& timer = std::get<base::TimerValue>(value);
      figures[py::str(name)] = timer.seconds;
      figures[py::str(name + ".calls")] = timer.count;
    }
  }
  return figures;
}

}  // namespace

void bind_metrics(py::module_& module) {
  module.def("metrics_snapshot", &snapshot);
  module.def("metrics_reset", &base::reset);
}

}  // namespace torch_pjrt::python
