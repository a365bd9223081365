#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/executor.h"
#include "pjrt/options.h"

namespace torch_pjrt::graph {

// What the process uses as its PJRT devices: set before the first use, or left as it is.
struct RuntimeSettings {
  std::string plugin_path;
  std::string plugin_problem;  // why there is no path, for the error of the first use
  pjrt::Options create_options;
  std::string cache_directory;  // empty: programs are kept in memory only
  pjrt::CompileOptions compile_options;
};

// The client of this process and an executor for each of its addressable devices, made on first
// use and never destroyed. All functions may be called from any thread.
namespace runtime {

// Throws std::logic_error once the client exists.
void configure(RuntimeSettings settings);
RuntimeSettings settings();

bool is_initialized() noexcept;

// Whether this process was forked off after the client was made: the client is unusable here, and
// buffers that were inherited are leaked.
bool is_forked() noexcept;

// Devices there are, or, before the client exists, those that the settings ask for (option
// `cpu_device_count`, else 1). Never creates the client. Of a CPU plugin's devices only as many are
// used as that option says: XLA makes several by default, all on the same cores. At most 127, which
// is what PyTorch's device indices can count.
int device_count() noexcept;

// Creates the client if need be (BlockingRegion). Throws pjrt::Error when there is no plugin, it
// cannot be loaded, the index is out of range, or this process was forked off after the client was
// made.
Executor& executor(int index);
const std::shared_ptr<pjrt::Client>& client();

// The executors that exist; empty before the client does, and in a forked child.
std::vector<Executor*> executors() noexcept;

}  // namespace runtime
}  // namespace torch_pjrt::graph
