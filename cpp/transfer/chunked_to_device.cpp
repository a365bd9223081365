#include "transfer/chunked_to_device.h"

#include <array>
#include <utility>

#include "base/blocking_region.h"
#include "base/inline_vector.h"
#include "pjrt/error.h"
#include "pjrt/layout.h"
#include "transfer/array_pieces.h"
#include "transfer/give.h"
#include "transfer/in_flight.h"
#include "transfer/strided_copy.h"

namespace torch_pjrt::transfer {
namespace {

constexpr const char* kInPieces = "copy host data to a device in pieces";
constexpr size_t kPiece = size_t{8} << 20;
constexpr size_t kPieces = 4;

struct Slot {
  HostBlock block;
  pjrt::Event read;  // by the device
};

// Waits until the device reads none of the blocks; errors are the buffer's.
void await_all(std::array<Slot, kPieces>& slots) noexcept {
  for (Slot& slot : slots) {
    try {
      slot.read.await(kInPieces);
    } catch (const pjrt::Error&) {
    }
  }
}

using Strides = base::InlineVector<int64_t, 8>;

Strides strides_of(const HostSource& source, size_t item) {
  if (!source.byte_strides.empty()) return Strides(source.byte_strides);
  Strides strides(source.dimensions.size());
  int64_t stride = static_cast<int64_t>(item);
  for (size_t d = strides.size(); d-- > 0; stride *= source.dimensions[d]) strides[d] = stride;
  return strides;
}

}  // namespace

pjrt::Buffer chunked_to_device(const pjrt::Client& client, pjrt::Device device,
                               const HostSource& source) {
  const pjrt::ArraySpec array{source.type, source.dimensions};
  const size_t item = item_bytes(source.type), bytes = array_bytes(array);
  pjrt::AsyncTransfer manager;
  try {
    manager = client.create_async_transfer({&array, 1}, device.default_memory());
  } catch (const pjrt::Error& error) {
    if (error.code() != pjrt::ErrorCode::kUnimplemented) throw;
    return {};
  }
  pjrt::Buffer buffer = manager.retrieve(0);
  if (manager.buffer_bytes(0) != bytes || !pjrt::is_row_major_on_device(buffer)) {
    manager.set_error(0, pjrt::ErrorCode::kCancelled, "goes in one piece instead");
    return {};
  }
  const base::BlockingRegion region;
  const InFlight share = InFlight::reserve(kPieces * kPiece);
  std::array<Slot, kPieces> slots;
  size_t next = 0;
  try {
    const Strides strides = strides_of(source, item);
    for_each_piece(
        source.data, source.dimensions, strides, item, kPiece, [&](const ArrayPiece& piece) {
          Slot& slot = slots[next++ % kPieces];
          if (!slot.block) slot.block = HostMemoryPool::shared().allocate(kPiece);
          slot.read.await(kInPieces);
          pack(slot.block.data(), piece.data, piece.dimensions, piece.byte_strides, item);
          slot.read = manager.transfer(0, slot.block.data(), piece.offset, piece.bytes,
                                       piece.offset + piece.bytes == bytes);
        });
    for (Slot& slot : slots) slot.read.await(kInPieces);
  } catch (...) {
    try {
      // Else whoever waits for the buffer would wait for ever.
      manager.set_error(0, pjrt::ErrorCode::kAborted, "a piece could not be transferred");
    } catch (const pjrt::Error&) {
      // It has an error already.
    }
    await_all(slots);
    throw;
  }
  return buffer;
}

}  // namespace torch_pjrt::transfer
