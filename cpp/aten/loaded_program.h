#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "graph/compile_cache.h"
#include "graph/executor.h"

namespace torch_pjrt::aten {

// A StableHLO module that runs on one device without a graph of PyTorch's. Immutable; any thread
// may run it.
class LoadedProgram {
 public:
  struct Description {
    std::string text;         // StableHLO
    std::string numbers;      // packed host numbers, the last parameter; empty: it has none
    size_t number_bytes = 0;  // of a word of the numbers
    std::vector<c10::ScalarType> results;  // PyTorch's dtype of each; Undefined: tells of checks
    std::vector<std::string> checked;      // the operators whose checks it tells of
  };

  // Compiles the module, or takes it from the disk cache (BlockingRegion). Throws pjrt::Error when
  // the plugin refuses it, or takes numbers of another width.
  LoadedProgram(graph::Executor& executor, const Description& description);

  // Launches the program on contiguous tensors of its device, one for each parameter; may execute
  // first what they depend on. Returns a new tensor for each result, undefined for that of the
  // checks. Throws pjrt::Error when the launch fails, and c10::Error for tensors of another device.
  // Failed checks are told as those of recorded operators, at the next read or sync.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& parameters) const;

 private:
  graph::Executor& executor_;
  std::vector<c10::ScalarType> results_;
  graph::CompileCache::Executable executable_;
  graph::SharedBufferPtr numbers_;
  std::vector<const graph::Operator*> checked_;
};

}  // namespace torch_pjrt::aten
