#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/config.h"
#include "aten/device.h"
#include "aten/generator.h"
#include "base/metrics.h"
#include "graph/compile_progress.h"
#include "graph/runtime.h"
#include "python/bindings.h"
#include "transfer/host_memory_pool.h"
#include "transfer/reclaimer.h"

namespace py = pybind11;

namespace torch_pjrt::python {
namespace {

using graph::Executor;

void configure(const std::string& plugin_path, const std::string& plugin_problem,
               const pjrt::Options& options, const std::string& cache_directory) {
  graph::RuntimeSettings settings = graph::runtime::settings();
  settings.plugin_path = plugin_path;
  settings.plugin_problem = plugin_problem;
  settings.create_options = options;
  settings.cache_directory = cache_directory;
  graph::runtime::configure(std::move(settings));
}

void execute_all() {
  for (Executor* executor : graph::runtime::executors()) executor->execute();
}

void synchronize(int index) {
  if (graph::runtime::is_initialized()) graph::runtime::executor(index).synchronize();
}

void synchronize_all() {
  for (Executor* executor : graph::runtime::executors()) executor->synchronize();
}

// Before the interpreter goes: nothing of ours may run Python code or wait for the GIL after it.
void shutdown() {
  constexpr std::chrono::seconds kPatience{10};
  if (graph::runtime::is_forked()) return;
  for (Executor* executor : graph::runtime::executors()) {
    try {
      executor->synchronize();
    } catch (const std::exception&) {
      base::counter("shutdown.errors").add();  // nobody is left to read the values
    }
  }
  transfer::Reclaimer::instance().drain(kPatience);
  transfer::Reclaimer::instance().abandon();
}

py::object memory_stats(int index) {
  const auto stats = graph::runtime::executor(index).device().memory_stats();
  if (!stats) return py::none();
  py::dict figures;
  figures["bytes_in_use"] = stats->bytes_in_use;
  auto add = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) figures[name] = *value;
  };
  add("peak_bytes_in_use", stats->peak_bytes_in_use);
  add("allocations", stats->allocations);
  add("largest_allocation", stats->largest_allocation);
  add("bytes_limit", stats->bytes_limit);
  add("bytes_reserved", stats->bytes_reserved);
  add("pool_bytes", stats->pool_bytes);
  return figures;
}

py::dict client_info() {
  const auto& client = graph::runtime::client();
  py::dict info;
  info["plugin"] = client->plugin().path();
  info["platform"] = client->platform_name();
  info["platform_version"] = client->platform_version();
  const auto version = client->plugin().api_version();
  info["api_version"] = py::make_tuple(version.first, version.second);
  info["extensions"] = client->plugin().extension_names();
  info["attributes"] = client->plugin().attributes();
  py::list devices;
  for (const pjrt::Device& device : client->addressable_devices()) {
    py::dict entry;
    entry["id"] = device.id();
    entry["kind"] = std::string(device.kind());
    entry["name"] = std::string(device.debug_string());
    py::list memories;
    for (const pjrt::Memory& memory : device.memories())
      memories.append(std::string(memory.kind()));
    entry["memories"] = memories;
    devices.append(entry);
  }
  info["devices"] = devices;
  py::list types;
  for (pjrt::ElementType type : client->probe_element_types()) {
    types.append(std::string(pjrt::name(type)));
  }
  info["element_types"] = types;
  return info;
}

}  // namespace

void bind_runtime(py::module_& module) {
  module.def("configure", &configure);
  module.def("plugin_path", [] { return graph::runtime::settings().plugin_path; });
  module.def("is_forked", &graph::runtime::is_forked);
  module.def("shutdown", &shutdown);
  module.def("trim_pool", [] { transfer::HostMemoryPool::shared().trim(); });
  module.def("drain_reclaimer",
             [] { return transfer::Reclaimer::instance().drain(std::chrono::seconds(10)); });
  module.def("parse_options", &pjrt::parse_options);
  module.def("is_initialized", &graph::runtime::is_initialized);
  module.def("device_count", &graph::runtime::device_count);
  module.def("initialize", [] { graph::runtime::client(); });
  module.def("current_device", &aten::current_device);
  module.def("set_device", &aten::set_current_device);
  module.def("execute_all", &execute_all);
  module.def("synchronize", &synchronize);
  module.def("synchronize_all", &synchronize_all);
  module.def("memory_stats", &memory_stats);
  module.def("client_info", &client_info);

  py::enum_<graph::Mode>(module, "Mode")
      .value("lazy", graph::Mode::kLazy)
      .value("eager", graph::Mode::kEager)
      .value("debug", graph::Mode::kDebug);
  module.def("mode", &Executor::mode);
  module.def("set_mode", &Executor::set_mode);
  module.def("donate", &Executor::donate);
  module.def("set_donate", &Executor::set_donate);
  module.def("limit", &Executor::limit);
  module.def("set_limit", &Executor::set_limit);
  module.def("program_limit", &graph::CompileCache::limit);
  module.def("set_program_limit", &graph::CompileCache::set_limit);
  module.def("progress", &graph::CompileProgress::shown);
  module.def("set_progress", &graph::CompileProgress::set_shown);
  module.def("check_indices", [] { return aten::config().check_indices; });
  module.def("set_check_indices", [](bool check) { aten::config().check_indices = check; });
  module.def("default_generator", [](int index) { return aten::default_generator(index); });
}

}  // namespace torch_pjrt::python
