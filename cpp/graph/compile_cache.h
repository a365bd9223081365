#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "graph/trace.h"
#include "pjrt/client.h"
#include "pjrt/compile_options.h"

namespace torch_pjrt::graph {

// The programs of one client: in memory by key, and in `directory` (when not empty and when the
// plugin can serialise) by a hash of the plugin's build, the options and the text.
//
// Counters: compile.programs, compile.cache_hits, compile.disk_hits; timers: compile.seconds,
// emit.seconds.
class CompileCache {
 public:
  using Executable = std::shared_ptr<const pjrt::LoadedExecutable>;

  CompileCache(std::shared_ptr<pjrt::Client> client, const pjrt::CompileOptions& options,
               std::string directory);

  // The executable of a trace's program, compiled if need be. Marks a BlockingRegion while it
  // compiles. Throws pjrt::Error when the compiler refuses the program.
  Executable get(const Trace& trace);

  // The executable of a StableHLO module, from the directory or compiled; not kept in memory.
  Executable compile(const std::string& text);

 private:
  Executable load(const std::string& path) const;
  void store(const std::string& path, const pjrt::LoadedExecutable& executable) const noexcept;
  std::string path_of(const std::string& text) const;

  std::shared_ptr<pjrt::Client> client_;
  std::string options_;
  std::string directory_;
  std::string build_;  // identifies the plugin's build
  std::mutex mutex_;
  std::unordered_map<ProgramKey, Executable, ProgramKeyHash> programs_;
};

}  // namespace torch_pjrt::graph
