#include "transfer/host_to_device.h"

#include <optional>
#include <string>
#include <utility>

#include "base/blocking_region.h"
#include "pjrt/error.h"
#include "transfer/chunked_to_device.h"
#include "transfer/give.h"
#include "transfer/host_to_device_figures.h"
#include "transfer/in_flight.h"
#include "transfer/strided_copy.h"

namespace torch_pjrt::transfer {
namespace {

using pjrt::HostBufferSemantics;
// The array as dense row-major bytes in `to`.
void gather(void* to, const HostSource& source, size_t bytes, bool dense) {
  std::optional<base::BlockingRegion> region;  // long enough for other threads to be glad of it
  if (bytes >= kParallelBytes) region.emplace();
  if (dense) {
    parallel_memcpy(to, source.data, bytes);
  } else {
    pack(to, source.data, source.dimensions, source.byte_strides, item_bytes(source.type));
  }
}

}  // namespace

pjrt::Buffer host_to_device(const pjrt::Client& client, pjrt::Device device,
                            const HostSource& source, const HoldSource& hold_source) {
  HostToDeviceFigures& figures = HostToDeviceFigures::instance();
  const pjrt::ArraySpec array{source.type, source.dimensions};
  const size_t bytes = array_bytes(array);
  const bool dense = is_row_major(source.dimensions, source.byte_strides, item_bytes(source.type));
  MeasuredTransfer measured(figures.all, bytes);

  if (bytes <= kSmallTransfer) {
    measured.took(figures.small);
    if (dense) return give_during_call(client, device, source.data, array);
    HostBlock block = HostMemoryPool::shared().allocate(bytes);
    gather(block.data(), source, bytes, false);
    return give_during_call(client, device, block.data(), array);
  }
  if (uses_host_memory(client)) {
    measured.took(dense ? figures.flat : figures.packed);
    HostBlock block = HostMemoryPool::shared().allocate(bytes);
    gather(block.data(), source, bytes, dense);
    return give_block(client, device, array, std::move(block));
  }
  if (dense && hold_source) {
    measured.took(figures.held);
    InFlight share = InFlight::reserve(bytes);
    return give_held(client, device, source.data, array,
                     HostBufferSemantics::kImmutableUntilTransferCompletes,
                     hold(std::pair(std::move(share), hold_source())));
  }
  if (bytes >= kChunkedTransfer && pjrt::bit_width(source.type) >= 8) {
    if (pjrt::Buffer buffer = chunked_to_device(client, device, source)) {
      measured.took(figures.chunked);
      return buffer;
    }
  }
  measured.took(dense ? figures.staged : figures.packed);
  InFlight share = InFlight::reserve(bytes);
  HostBlock block = HostMemoryPool::shared().allocate(bytes);
  gather(block.data(), source, bytes, dense);
  return give_block(client, device, array, std::move(block), std::move(share));
}

pjrt::Buffer block_to_device(const pjrt::Client& client, pjrt::Device device,
                             const pjrt::ArraySpec& array, HostBlock block, BlockOrigin origin) {
  const size_t bytes = array_bytes(array);
  if (block.size() < bytes) {
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "move a block to a device",
                      "the block is too small; got " + std::to_string(block.size()) +
                          " bytes, expected " + std::to_string(bytes));
  }
  MeasuredTransfer measured(HostToDeviceFigures::instance().all, bytes);
  measured.took(origin == BlockOrigin::kCast ? HostToDeviceFigures::instance().cast
                                             : HostToDeviceFigures::instance().block);
  if (bytes <= kSmallTransfer) return give_during_call(client, device, block.data(), array);
  InFlight share;
  if (!uses_host_memory(client)) share = InFlight::reserve(bytes);
  return give_block(client, device, array, std::move(block), std::move(share));
}

bool can_adopt(const pjrt::Client& client, const HostSource& source) {
  const int bits = pjrt::bit_width(source.type);
  return reinterpret_cast<uintptr_t>(source.data) % 64 == 0 && source.data && bits >= 8 &&
         element_count(source.dimensions) > 0 &&
         is_row_major(source.dimensions, source.byte_strides, static_cast<size_t>(bits) / 8) &&
         uses_host_memory(client);
}

pjrt::Buffer adopt(const pjrt::Client& client, pjrt::Device device, const HostSource& source,
                   std::unique_ptr<Holder> holder) {
  if (!can_adopt(client, source)) {
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "share host memory with a device",
                      "the device cannot use this memory as it is; expected a dense row-major "
                      "array with elements, aligned to 64 bytes, and a device that computes in "
                      "host memory; copy it instead");
  }
  const pjrt::ArraySpec array{source.type, source.dimensions};
  MeasuredTransfer measured(HostToDeviceFigures::instance().all, array_bytes(array));
  measured.took(HostToDeviceFigures::instance().adopted);
  return give_held(client, device, source.data, array, HostBufferSemantics::kImmutableZeroCopy,
                   std::move(holder));
}

}  // namespace torch_pjrt::transfer
