#include "transfer/device_to_host.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/blocking_region.h"
#include "pjrt/error.h"
#include "transfer/host_addressing.h"
#include "transfer/host_memory_pool.h"
#include "transfer/streaming_copy.h"
#include "transfer/strided_copy.h"
#include "transfer/transfer_figures.h"
#include "transfer/transfer_threads.h"

namespace torch_pjrt::transfer {
namespace {

constexpr const char* kToHost = "copy from a device to the host";

struct ToHostFigures {
  TransferFigures all{"transfer.device_to_host"};
  TransferFigures direct{"transfer.device_to_host.direct"};
  TransferFigures plugin{"transfer.device_to_host.plugin"};
  TransferFigures unpacked{"transfer.device_to_host.unpacked"};
};

ToHostFigures& to_host_figures() {
  static ToHostFigures* const figures = new ToHostFigures;
  return *figures;
}

// Keeps a buffer's memory from being freed, moved or donated.
class ExternalReference {
 public:
  explicit ExternalReference(const pjrt::Buffer& buffer)
      : buffer_(const_cast<pjrt::Buffer&>(buffer)) {
    buffer_.add_external_reference();
  }
  ~ExternalReference() { buffer_.drop_external_reference(); }
  ExternalReference(const ExternalReference&) = delete;
  ExternalReference& operator=(const ExternalReference&) = delete;

 private:
  pjrt::Buffer& buffer_;
};

struct Shape {
  size_t item;
  size_t bytes;
  bool dense;
  bool whole_bytes;  // not a type below 8 bits, which the device may keep packed
};

Shape shape_of(const pjrt::Buffer& buffer, const HostTarget& target) {
  const int bits = pjrt::bit_width(buffer.element_type());
  const int64_t count = element_count(target.dimensions);
  const int64_t expected = element_count(buffer.dimensions());
  if (count != expected) {
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, kToHost,
                      "the target has another number of elements than the buffer; got " +
                          std::to_string(count) + ", expected " + std::to_string(expected));
  }
  Shape shape;
  shape.item = static_cast<size_t>(bits + 7) / 8;
  shape.bytes = shape.item * static_cast<size_t>(count);
  shape.dense = is_row_major(target.dimensions, target.byte_strides, shape.item);
  shape.whole_bytes = bits >= 8;
  return shape;
}

// `streaming`: one of many that no cache holds together.
void scatter(const HostTarget& target, const void* from, const Shape& shape, bool streaming) {
  if (shape.dense && streaming) {
    stream_bytes(static_cast<char*>(target.data), static_cast<const char*>(from), shape.bytes);
    end_streaming();
  } else if (shape.dense) {
    parallel_memcpy(target.data, from, shape.bytes);
  } else {
    unpack(target.data, from, target.dimensions, target.byte_strides, shape.item);
  }
}

// One copy in three steps, so that several can overlap: start, await, finish.
class Copy {
 public:
  Copy(const pjrt::Client& client, const DeviceToHostCopy& copy)
      : buffer_(*copy.buffer), target_(copy.target), shape_(shape_of(buffer_, target_)) {
    if (shape_.bytes == 0) return;
    direct_ = shape_.whole_bytes && uses_host_memory(client) && buffer_.is_on_cpu() &&
              buffer_.on_device_bytes() == shape_.bytes;
    if (direct_) {
      path_ = &to_host_figures().direct;
      event_ = buffer_.ready_event();
      return;
    }
    void* to = target_.data;
    if (shape_.dense) {
      path_ = &to_host_figures().plugin;
    } else {
      path_ = &to_host_figures().unpacked;
      block_ = HostMemoryPool::shared().allocate(shape_.bytes);
      to = block_.data();
    }
    event_ = buffer_.copy_to_host(to, shape_.bytes);
  }

  void await() const {
    if (event_) event_.await(kToHost);
  }

  // After await.
  void finish(bool streaming = false) {
    if (direct_) {
      ExternalReference keep(buffer_);
      scatter(target_, buffer_.device_pointer(), shape_, streaming);
    } else if (block_) {
      scatter(target_, block_.data(), shape_, streaming);
      block_ = {};
    }
  }

  size_t bytes() const noexcept { return shape_.bytes; }
  TransferFigures* path() const noexcept { return path_; }  // null without elements

 private:
  const pjrt::Buffer& buffer_;
  HostTarget target_;
  Shape shape_;
  bool direct_ = false;
  TransferFigures* path_ = nullptr;
  pjrt::Event event_;
  HostBlock block_;
};

}  // namespace

void device_to_host(const pjrt::Client& client, const pjrt::Buffer& buffer,
                    const HostTarget& target) {
  MeasuredTransfer measured(to_host_figures().all);
  Copy copy(client, {&buffer, target});
  measured.moved(copy.bytes());
  if (copy.path()) measured.took(*copy.path());
  copy.await();
  if (copy.bytes() >= kParallelBytes) {
    base::BlockingRegion region;  // long enough for other threads to be glad of it
    copy.finish();
  } else {
    copy.finish();
  }
}

void device_to_host(const pjrt::Client& client, std::span<const DeviceToHostCopy> copies) {
  MeasuredTransfer measured(to_host_figures().all, 0, static_cast<int64_t>(copies.size()));
  base::BlockingRegion region;
  std::exception_ptr first_error;
  const auto note = [&] {
    if (!first_error) first_error = std::current_exception();
  };
  std::vector<Copy> started;
  started.reserve(copies.size());
  size_t bytes = 0;
  for (const DeviceToHostCopy& copy : copies) {
    try {
      started.emplace_back(client, copy);
      bytes += started.back().bytes();
    } catch (...) {
      note();
    }
  }
  std::vector<Copy*> small;
  for (Copy& copy : started) {
    try {
      copy.await();
      // Large ones share their bytes among the threads, small ones are shared out whole.
      if (copy.bytes() > kParallelBytes) {
        copy.finish();
      } else {
        small.push_back(&copy);
      }
    } catch (...) {
      note();
    }
  }
  constexpr size_t kBatch = 4;
  const bool streaming = bytes >= kStreamingBytes;
  std::vector<std::exception_ptr> errors(small.size());
  TransferThreads::run((small.size() + kBatch - 1) / kBatch, [&](size_t batch) {
    for (size_t i = batch * kBatch; i < std::min(small.size(), (batch + 1) * kBatch); ++i) {
      try {
        small[i]->finish(streaming);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  });
  measured.moved(bytes);
  const std::chrono::nanoseconds elapsed = measured.elapsed();
  for (const Copy& copy : started) {
    if (!copy.path()) continue;
    const double share = static_cast<double>(copy.bytes()) / static_cast<double>(bytes);
    copy.path()->add(copy.bytes(),
                     std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed * share));
  }
  for (const std::exception_ptr& error : errors) {
    if (error && !first_error) first_error = error;
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace torch_pjrt::transfer
