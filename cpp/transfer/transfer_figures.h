#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/metrics.h"

namespace torch_pjrt::transfer {

// What one way of copying did: <prefix>.calls, <prefix>.bytes and the timer <prefix>.seconds.
class TransferFigures {
 public:
  explicit TransferFigures(std::string_view prefix)
      : calls_(base::counter(std::string(prefix) + ".calls")),
        bytes_(base::counter(std::string(prefix) + ".bytes")),
        seconds_(base::timer(std::string(prefix) + ".seconds")) {}

  void add(size_t bytes, std::chrono::nanoseconds elapsed, int64_t calls = 1) noexcept {
    calls_.add(calls);
    bytes_.add(static_cast<int64_t>(bytes));
    seconds_.add(elapsed);
  }

 private:
  base::Counter& calls_;
  base::Counter& bytes_;
  base::Timer& seconds_;
};

// Measures one transfer (or one batch) from its construction to its destruction: for its direction
// and for the path that it took.
class MeasuredTransfer {
 public:
  MeasuredTransfer(TransferFigures& direction, size_t bytes, int64_t calls = 1) noexcept
      : direction_(direction),
        bytes_(bytes),
        calls_(calls),
        start_(std::chrono::steady_clock::now()) {}
  ~MeasuredTransfer() {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    direction_.add(bytes_, elapsed, calls_);
    if (path_) path_->add(bytes_, elapsed, calls_);
  }
  MeasuredTransfer(const MeasuredTransfer&) = delete;
  MeasuredTransfer& operator=(const MeasuredTransfer&) = delete;

  void took(TransferFigures& path) noexcept { path_ = &path; }

 private:
  TransferFigures& direction_;
  TransferFigures* path_ = nullptr;
  size_t bytes_;
  int64_t calls_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace torch_pjrt::transfer
