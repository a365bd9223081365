#include <pybind11/stl.h>

#include "aten/profiler.h"
#include "base/metrics.h"
#include "base/trace_range.h"
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
  module.def("start_trace", &base::start_tracing);
  module.def("is_tracing", &base::is_tracing);
  module.def("stop_trace", [] { return base::chrome_trace(base::stop_tracing()); });
  aten::show_ranges_to_profiler();
}

}  // namespace torch_pjrt::python
