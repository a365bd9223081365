#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/metrics.h"
#include "base/trace_range.h"

namespace torch_pjrt::transfer {

// What one way of copying did: <prefix>.calls, <prefix>.bytes and the timer <prefix>.seconds.
class TransferFigures {
 public:
  // `prefix` lives as long as the process; its last part names the path in traces.
  explicit TransferFigures(const char* prefix)
      : calls_(base::counter(std::string(prefix) + ".calls")),
        bytes_(base::counter(std::string(prefix) + ".bytes")),
        seconds_(base::timer(std::string(prefix) + ".seconds")),
        path_(std::strrchr(prefix, '.') + 1) {}

  void add(size_t bytes, std::chrono::nanoseconds elapsed, int64_t calls = 1) noexcept {
    calls_.add(calls);
    bytes_.add(static_cast<int64_t>(bytes));
    seconds_.add(elapsed);
  }

  const char* path() const noexcept { return path_; }

 private:
  base::Counter& calls_;
  base::Counter& bytes_;
  base::Timer& seconds_;
  const char* path_;
};

// Measures one transfer (or one batch) from its construction to its destruction: for its direction
// and for the path that it took, and as a range of traces with the direction's name.
class MeasuredTransfer {
 public:
  explicit MeasuredTransfer(TransferFigures& direction, size_t bytes = 0,
                            int64_t calls = 1) noexcept
      : range_(direction.path()),
        direction_(direction),
        bytes_(bytes),
        calls_(calls),
        start_(std::chrono::steady_clock::now()) {}
  ~MeasuredTransfer() {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    direction_.add(bytes_, elapsed, calls_);
    if (path_) path_->add(bytes_, elapsed, calls_);
    range_.set_bytes(bytes_);
    if (path_) range_.set_detail(path_->path());
  }
  MeasuredTransfer(const MeasuredTransfer&) = delete;
  MeasuredTransfer& operator=(const MeasuredTransfer&) = delete;

  void took(TransferFigures& path) noexcept { path_ = &path; }
  void moved(size_t bytes) noexcept { bytes_ = bytes; }
  std::chrono::nanoseconds elapsed() const noexcept {
    return std::chrono::steady_clock::now() - start_;
  }

 private:
  base::TraceRange range_;
  TransferFigures& direction_;
  TransferFigures* path_ = nullptr;
  size_t bytes_;
  int64_t calls_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace torch_pjrt::transfer
