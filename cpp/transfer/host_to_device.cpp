#include "transfer/host_to_device.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/blocking_region.h"
#include "pjrt/error.h"
#include "transfer/strided_copy.h"
#include "transfer/transfer_figures.h"
#include "transfer/transfer_threads.h"

namespace torch_pjrt::transfer {
namespace {

using pjrt::HostBufferSemantics;

struct Figures {
  TransferFigures all{"transfer.host_to_device"};
  base::Timer& seconds = base::timer("transfer.host_to_device.seconds");
  TransferFigures small{"transfer.host_to_device.small"};
  TransferFigures flat{"transfer.host_to_device.flat"};
  TransferFigures packed{"transfer.host_to_device.packed"};
  TransferFigures held{"transfer.host_to_device.held"};
  TransferFigures block{"transfer.host_to_device.block"};
  TransferFigures adopted{"transfer.host_to_device.adopted"};
};

Figures& figures() {
  static Figures* const figures = new Figures;
  return *figures;
}

// PJRT asks for a pointer even where there is nothing to read.
alignas(64) const char kNothing[64] = {};

size_t bytes_of(pjrt::ElementType type, std::span<const int64_t> dimensions) {
  // A type below 8 bits takes a byte an element in a host array.
  const size_t item = static_cast<size_t>(pjrt::bit_width(type) + 7) / 8;
  return static_cast<size_t>(element_count(dimensions)) * item;
}

pjrt::HostTransfer give(const pjrt::Client& client, pjrt::Device device, const void* data,
                        pjrt::ElementType type, std::span<const int64_t> dimensions,
                        HostBufferSemantics semantics) {
  if (pjrt::bit_width(type) == 0) {  // plugins end the process for these
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "copy host data to a device",
                      "the element type has no data; got '" + std::string(pjrt::name(type)) +
                          "', expected a number type");
  }
  pjrt::HostArray array;
  array.data = data ? data : kNothing;
  array.type = type;
  array.dimensions = dimensions;
  array.semantics = semantics;
  array.device = device;
  return client.buffer_from_host(array);
}

// For memory that the plugin has read when the call returns.
pjrt::Buffer give_during_call(const pjrt::Client& client, pjrt::Device device, const void* data,
                              pjrt::ElementType type, std::span<const int64_t> dimensions) {
  return std::move(
      give(client, device, data, type, dimensions, HostBufferSemantics::kImmutableOnlyDuringCall)
          .buffer);
}

// Keeps a pool block. Giving it back takes a leaf lock only, unless its memory must go to the
// system, so most blocks are there for the next transfer as soon as the buffer is gone.
struct BlockHolder final : Holder {
  explicit BlockHolder(HostBlock block) : block(std::move(block)) {}
  HostBlock block;
};

void let_go(std::unique_ptr<Holder> holder) noexcept {
  Reclaimer::instance().reclaim(std::move(holder));
}

void let_go(std::unique_ptr<BlockHolder> holder) noexcept {
  if (!holder->block.recycle()) Reclaimer::instance().reclaim(std::move(holder));
}

// For memory that `holder` keeps until the done event, which may come on any thread: it only
// passes the holder on.
template <typename SomeHolder>
pjrt::Buffer give_until_done(const pjrt::Client& client, pjrt::Device device, const void* data,
                             pjrt::ElementType type, std::span<const int64_t> dimensions,
                             HostBufferSemantics semantics, std::unique_ptr<SomeHolder> holder) {
  pjrt::HostTransfer given = give(client, device, data, type, dimensions, semantics);
  // Raw: should the callback be dropped without a call, the memory may still be in use.
  SomeHolder* const held = holder.release();
  try {
    given.done_with_host_buffer.on_ready(
        [held](const pjrt::Error*) noexcept { let_go(std::unique_ptr<SomeHolder>(held)); });
  } catch (...) {
    // Without the buffer the device lets go of the memory; if even that cannot be waited for, the
    // holder leaks.
    given.buffer = {};
    given.done_with_host_buffer.await("wait for the end of a failed transfer");
    let_go(std::unique_ptr<SomeHolder>(held));
    throw;
  }
  return std::move(given.buffer);
}

pjrt::Buffer give_block(const pjrt::Client& client, pjrt::Device device, pjrt::ElementType type,
                        std::span<const int64_t> dimensions, HostBlock block) {
  const void* const data = block.data();
  return give_until_done(client, device, data, type, dimensions,
                         uses_host_memory(client)
                             ? HostBufferSemantics::kMutableZeroCopy
                             : HostBufferSemantics::kImmutableUntilTransferCompletes,
                         std::make_unique<BlockHolder>(std::move(block)));
}

// The array as dense row-major bytes in `to`.
void gather(void* to, const HostSource& source, size_t bytes, bool dense) {
  std::optional<base::BlockingRegion> region;  // long enough for other threads to be glad of it
  if (bytes >= kParallelBytes) region.emplace();
  if (dense) {
    parallel_memcpy(to, source.data, bytes);
  } else {
    pack(to, source.data, source.dimensions, source.byte_strides,
         static_cast<size_t>(pjrt::bit_width(source.type) + 7) / 8);
  }
}

}  // namespace

pjrt::Buffer host_to_device(const pjrt::Client& client, pjrt::Device device,
                            const HostSource& source, const HoldSource& hold_source) {
  Figures& figures = transfer::figures();
  base::ScopedTimer timed(figures.seconds);
  const size_t bytes = bytes_of(source.type, source.dimensions);
  const size_t item = static_cast<size_t>(pjrt::bit_width(source.type) + 7) / 8;
  const bool dense = is_row_major(source.dimensions, source.byte_strides, item);
  figures.all.add(bytes);

  if (bytes <= kSmallTransfer) {
    figures.small.add(bytes);
    if (dense) {
      return give_during_call(client, device, source.data, source.type, source.dimensions);
    }
    HostBlock block = HostMemoryPool::shared().allocate(bytes);
    gather(block.data(), source, bytes, false);
    return give_during_call(client, device, block.data(), source.type, source.dimensions);
  }
  if (dense && hold_source && !uses_host_memory(client)) {
    figures.held.add(bytes);
    return give_until_done(client, device, source.data, source.type, source.dimensions,
                           HostBufferSemantics::kImmutableUntilTransferCompletes, hold_source());
  }
  (dense ? figures.flat : figures.packed).add(bytes);
  HostBlock block = HostMemoryPool::shared().allocate(bytes);
  gather(block.data(), source, bytes, dense);
  return give_block(client, device, source.type, source.dimensions, std::move(block));
}

std::vector<pjrt::Buffer> host_to_device(const pjrt::Client& client,
                                         std::span<const HostToDeviceCopy> copies) {
  std::vector<pjrt::Buffer> buffers(copies.size());
  std::vector<std::exception_ptr> errors(copies.size());
  const auto make = [&](size_t i) noexcept {
    try {
      buffers[i] =
          host_to_device(client, copies[i].device, copies[i].source, copies[i].hold_source);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  base::BlockingRegion region;
  std::vector<size_t> small;
  for (size_t i = 0; i < copies.size(); ++i) {
    if (bytes_of(copies[i].source.type, copies[i].source.dimensions) <= kSmallTransfer) {
      small.push_back(i);
    } else {
      make(i);
    }
  }
  constexpr size_t kBatch = 8;
  TransferThreads::run((small.size() + kBatch - 1) / kBatch, [&](size_t batch) {
    for (size_t i = batch * kBatch; i < std::min(small.size(), (batch + 1) * kBatch); ++i) {
      make(small[i]);
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return buffers;
}

pjrt::Buffer block_to_device(const pjrt::Client& client, pjrt::Device device,
                             const pjrt::ArraySpec& array, HostBlock block) {
  const size_t bytes = bytes_of(array.type, array.dimensions);
  if (block.size() < bytes) {
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "move a block to a device",
                      "the block is too small; got " + std::to_string(block.size()) +
                          " bytes, expected " + std::to_string(bytes));
  }
  base::ScopedTimer timed(figures().seconds);
  figures().all.add(bytes);
  figures().block.add(bytes);
  if (bytes <= kSmallTransfer) {
    return give_during_call(client, device, block.data(), array.type, array.dimensions);
  }
  return give_block(client, device, array.type, array.dimensions, std::move(block));
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
  const size_t bytes = bytes_of(source.type, source.dimensions);
  base::ScopedTimer timed(figures().seconds);
  figures().all.add(bytes);
  figures().adopted.add(bytes);
  return give_until_done(client, device, source.data, source.type, source.dimensions,
                         HostBufferSemantics::kImmutableZeroCopy, std::move(holder));
}

}  // namespace torch_pjrt::transfer
