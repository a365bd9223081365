#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/metrics.h"

namespace torch_pjrt::transfer {

// A pair of counters, <prefix>.calls and <prefix>.bytes.
class TransferFigures {
 public:
  explicit TransferFigures(std::string_view prefix)
      : calls_(base::counter(std::string(prefix) + ".calls")),
        bytes_(base::counter(std::string(prefix) + ".bytes")) {}

  void add(size_t bytes) noexcept {
    calls_.add();
    bytes_.add(static_cast<int64_t>(bytes));
  }

 private:
  base::Counter& calls_;
  base::Counter& bytes_;
};

}  // namespace torch_pjrt::transfer
