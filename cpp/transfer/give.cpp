#include "transfer/give.h"

#include <string>

#include "pjrt/error.h"
#include "transfer/host_addressing.h"
#include "transfer/strided_copy.h"

namespace torch_pjrt::transfer {
namespace {

using pjrt::HostBufferSemantics;

// PJRT asks for a pointer even where there is nothing to read.
alignas(64) const char kNothing[64] = {};

struct BlockHolder final : Holder {
  BlockHolder(HostBlock block, InFlight share) : block(std::move(block)), share(std::move(share)) {}
  HostBlock block;
  InFlight share;
};

}  // namespace

size_t item_bytes(pjrt::ElementType type) noexcept {
  return static_cast<size_t>(pjrt::bit_width(type) + 7) / 8;
}

size_t array_bytes(const pjrt::ArraySpec& array) noexcept {
  return static_cast<size_t>(element_count(array.dimensions)) * item_bytes(array.type);
}

pjrt::HostTransfer give(const pjrt::Client& client, pjrt::Device device, const void* data,
                        const pjrt::ArraySpec& spec, HostBufferSemantics semantics) {
  if (pjrt::bit_width(spec.type) == 0) {
    throw pjrt::Error(pjrt::ErrorCode::kInvalidArgument, "copy host data to a device",
                      "the element type has no data; got '" + std::string(pjrt::name(spec.type)) +
                          "', expected a number type");
  }
  pjrt::HostArray array;
  array.data = data ? data : kNothing;
  array.type = spec.type;
  array.dimensions = spec.dimensions;
  array.semantics = semantics;
  array.device = device;
  return client.buffer_from_host(array);
}

pjrt::Buffer give_during_call(const pjrt::Client& client, pjrt::Device device, const void* data,
                              const pjrt::ArraySpec& array) {
  return std::move(
      give(client, device, data, array, HostBufferSemantics::kImmutableOnlyDuringCall).buffer);
}

pjrt::Buffer give_held(const pjrt::Client& client, pjrt::Device device, const void* data,
                       const pjrt::ArraySpec& array, HostBufferSemantics semantics,
                       std::unique_ptr<Holder> holder) {
  pjrt::HostTransfer given = give(client, device, data, array, semantics);
  // Raw: should the callback be dropped without a call, the memory may still be in use.
  Holder* const held = holder.release();
  return until_done(std::move(given), [held]() noexcept {
    Reclaimer::instance().reclaim(std::unique_ptr<Holder>(held));
  });
}

pjrt::Buffer give_block(const pjrt::Client& client, pjrt::Device device,
                        const pjrt::ArraySpec& array, HostBlock block, InFlight share) {
  const HostBufferSemantics semantics = uses_host_memory(client)
                                            ? HostBufferSemantics::kMutableZeroCopy
                                            : HostBufferSemantics::kImmutableUntilTransferCompletes;
  auto holder = std::make_unique<BlockHolder>(std::move(block), std::move(share));
  pjrt::HostTransfer given = give(client, device, holder->block.data(), array, semantics);
  BlockHolder* const held = holder.release();
  return until_done(std::move(given), [held]() noexcept {
    // Giving it back takes a leaf lock only, unless its memory must go to the system, so most
    // blocks are there for the next transfer as soon as the buffer is gone.
    std::unique_ptr<BlockHolder> owned(held);
    if (!owned->block.recycle()) Reclaimer::instance().reclaim(std::move(owned));
  });
}

}  // namespace torch_pjrt::transfer
