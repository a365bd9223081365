#pragma once

#include <cstddef>
#include <string>

#include "base/metrics.h"

namespace torch_pjrt::aten {

// How often, and how many bytes: the counters <name>.calls and <name>.bytes.
class CopyFigures {
 public:
  explicit CopyFigures(const std::string& name)
      : calls_(base::counter(name + ".calls")), bytes_(base::counter(name + ".bytes")) {}

  void add(size_t bytes) noexcept {
    calls_.add();
    bytes_.add(static_cast<int64_t>(bytes));
  }

 private:
  base::Counter& calls_;
  base::Counter& bytes_;
};

}  // namespace torch_pjrt::aten
