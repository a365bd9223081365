#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/client.h"
#include "pjrt/device.h"
#include "pjrt/element_type.h"
#include "transfer/host_addressing.h"
#include "transfer/host_memory_pool.h"
#include "transfer/reclaimer.h"

namespace torch_pjrt::transfer {

// An array in host memory that is to be read.
struct HostSource {
  const void* data = nullptr;  // the element with index (0, 0, ...); may be null without elements
  pjrt::ElementType type = pjrt::ElementType::kInvalid;
  std::span<const int64_t> dimensions;
  std::span<const int64_t> byte_strides = {};  // empty: dense row-major; may be negative or zero
};

// Makes what keeps the source alive. Called at most once, on the calling thread (perhaps inside a
// BlockingRegion), and only where the source is needed after the call; the reclaimer destroys its
// result once it is not.
using HoldSource = std::function<std::unique_ptr<Holder>()>;

// Copies an array to a device. Does not wait for what the device computes.
//
// Up to kSmallTransfer bytes the plugin copies before the call returns. Above, where the device
// uses host memory itself, the array is copied (dense) or packed (strided) in parallel into a
// pool block that becomes the buffer's memory. Elsewhere a dense source is read by the device
// while `hold_source`'s result keeps it; without one a large array goes in pieces, which waits for
// the transfer (chunked_to_device.h), and a smaller one through a pool block. There the host memory
// of transfers on their way is bounded (in_flight.h): the call waits while they have too much.
// If `hold_source` is empty, a source is never read after the call.
//
// Throws pjrt::Error, std::bad_alloc. Counts transfer.host_to_device.{calls,bytes,seconds} and
// the same by path: small, flat, packed, batched, held, chunked, staged, cast, block, adopted.
pjrt::Buffer host_to_device(const pjrt::Client& client, pjrt::Device device,
                            const HostSource& source, const HoldSource& hold_source = {});

struct HostToDeviceCopy {
  pjrt::Device device;
  HostSource source;
  HoldSource hold_source;
};

// Several at once, shared out among the threads of TransferThreads. Where the device uses host
// memory itself, arrays up to kSmallTransfer lie together in pool blocks of 2 MiB, so the last
// buffer in one keeps the memory of its neighbours; the order of the buffers is that of the copies.
// After an error of one the others are still made, then the first error is thrown and all that was
// made is freed.
std::vector<pjrt::Buffer> host_to_device(const pjrt::Client& client,
                                         std::span<const HostToDeviceCopy> copies);

// The same, with each buffer given to `take` as soon as it is made, once for each copy that
// succeeds: in any order, on any thread of TransferThreads, several at once, inside a
// BlockingRegion, while others are copied. What it throws counts as that copy's error.
using TakeBuffer = std::function<void(size_t index, pjrt::Buffer buffer)>;
void host_to_device(const pjrt::Client& client, std::span<const HostToDeviceCopy> copies,
                    const TakeBuffer& take);

constexpr size_t kSmallTransfer = size_t{128} << 10;

// Why the caller filled a block: it cast an array on its way, or bounced it from another device.
enum class BlockOrigin { kCast, kBounce };

// Hands a pool block that the caller filled, dense and row-major, to a device: without a copy
// where the device uses host memory. The block must have the array's size at least.
pjrt::Buffer block_to_device(const pjrt::Client& client, pjrt::Device device,
                             const pjrt::ArraySpec& array, HostBlock block,
                             BlockOrigin origin = BlockOrigin::kBounce);

// Whether the device can use this memory as it is: host memory is its own, the array is dense
// and row-major, not empty, and aligned to 64 bytes.
bool can_adopt(const pjrt::Client& client, const HostSource& source);

// Makes a buffer that shares the source's memory, which nobody may write until the holder is
// destroyed; the device does not write it either. Throws kInvalidArgument unless can_adopt().
pjrt::Buffer adopt(const pjrt::Client& client, pjrt::Device device, const HostSource& source,
                   std::unique_ptr<Holder> holder);

}  // namespace torch_pjrt::transfer
