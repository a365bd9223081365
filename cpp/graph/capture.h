#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "graph/compile_cache.h"
#include "graph/executor.h"
#include "graph/trace.h"

namespace torch_pjrt::graph {

// Sees what an executor launches and reads while somebody records, to tell whether it all was one
// program, and which. It sees what other threads do meanwhile, too, and holds no buffer and no
// value, so that it changes nothing of what it sees.
class Capture {
 public:
  // Buffers are told by SharedBuffer::id().
  struct Leaf {
    uint64_t buffer = 0;
    Type type;
    bool donated = false;
  };
  struct Root {
    uint64_t buffer = 0;
    Type type;
  };
  struct Program {
    CompileCache::Executable executable;
    std::vector<Leaf> leaves;
    std::vector<Root> roots;
    std::string numbers;  // packed words; empty if the program reads none
    std::vector<Trace::RandomWord> random_words;
    size_t operations = 0;
    // What each element of the root at `checks` tells; -1 when there are no checks.
    int64_t checks = -1;
    std::vector<const Operator*> checked;
    std::string text;  // StableHLO, where it was asked for
  };

  // From now on, until `finish` or the end of its life. With text it is for an export, which runs
  // with stand-ins for arguments: what checks find in these is raised nowhere.
  explicit Capture(Executor& executor, bool with_text = false);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Whether this thread made one with text that is not at its end.
  static bool exports_on_this_thread() noexcept;

  // The one program that was launched; without an executable when nothing was. Empty when there
  // were several, when a value was read, or when a launch failed. Throws where its text was asked
  // for and an operator of it can only be written for this device.
  std::unique_ptr<Program> finish();

 private:
  friend class Executor;
  void launched(const Trace& trace, const CompileCache::Executable& executable,
                std::vector<Root> roots);
  void failed() noexcept {
    ++launches_;
    program_.reset();
  }
  void checks(uint64_t buffer, const std::vector<const Operator*>& operators);
  void stop();

  Executor& executor_;
  bool with_text_;
  bool is_active_ = false;
  int launches_ = 0;  // under the executor's turn
  uint64_t reads_before_ = 0;
  uint64_t reads_ = 0;
  std::unique_ptr<Program> program_;  // under the executor's turn
  std::exception_ptr unwritable_;     // under the executor's turn
};

}  // namespace torch_pjrt::graph
