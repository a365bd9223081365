#pragma once

#include <cstdint>
#include <span>

#include "pjrt/buffer.h"
#include "pjrt/client.h"

namespace torch_pjrt::transfer {

// An array in host memory that is to be written. Its shape may differ from the buffer's, with as
// many elements: they are taken in row-major order.
struct HostTarget {
  void* data = nullptr;  // the element with index (0, 0, ...); may be null without elements
  std::span<const int64_t> dimensions;
  std::span<const int64_t> byte_strides = {};  // empty: dense row-major; may be negative
};

// Waits (in a BlockingRegion) until the buffer is ready, and copies its elements.
//
// Where the host can address the buffer's memory it is read directly, in parallel when large;
// elsewhere the plugin writes a dense target itself, and a strided one is unpacked from a pool
// block. On return the target is complete, or an error is thrown and nothing writes it any more.
// The buffer must stay undonated and alive meanwhile.
//
// Throws pjrt::Error: that of the computation that made the buffer, or kInvalidArgument if the
// element counts differ. Counts transfer.device_to_host.{calls,bytes,seconds} and calls and bytes
// by path: direct, plugin, unpacked.
void device_to_host(const pjrt::Client& client, const pjrt::Buffer& buffer,
                    const HostTarget& target);

struct DeviceToHostCopy {
  const pjrt::Buffer* buffer = nullptr;
  HostTarget target;
};

// Several at once; all are started before any is waited for. After an error of one the others
// are still completed, then the first error is thrown.
void device_to_host(const pjrt::Client& client, std::span<const DeviceToHostCopy> copies);

}  // namespace torch_pjrt::transfer
