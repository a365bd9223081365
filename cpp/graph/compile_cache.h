#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "graph/trace.h"
#include "pjrt/client.h"
#include "pjrt/compile_options.h"

namespace torch_pjrt::graph {

// The programs of one client: in memory by key, and in `directory` (when not empty and when the
// plugin can serialise) by a hash of the plugin's build, the options and the text. Of those in
// memory the one that was used longest ago goes when there are more than the limit, so that shapes
// that never come again do not fill it.
//
// Counters: compile.programs, compile.cache_hits, compile.disk_hits, compile.dropped; timers:
// compile.seconds, emit.seconds.
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

  // How many programs a client keeps in memory, of the process; at least 1.
  static void set_limit(size_t limit) noexcept { limit_.store(limit); }
  static size_t limit() noexcept { return limit_.load(); }

 private:
  struct Kept {
    ProgramKey key;
    Executable executable;
  };
  Executable load(const std::string& path) const;
  void store(const std::string& path, const pjrt::LoadedExecutable& executable) const noexcept;
  std::string path_of(const std::string& text) const;

  std::shared_ptr<pjrt::Client> client_;
  std::string options_;
  std::string directory_;
  std::string build_;  // identifies the plugin's build
  std::mutex mutex_;
  std::list<Kept> kept_;  // used last: first
  std::unordered_map<ProgramKey, std::list<Kept>::iterator, ProgramKeyHash> programs_;
  static inline std::atomic<size_t> limit_{4096};
};

}  // namespace torch_pjrt::graph
