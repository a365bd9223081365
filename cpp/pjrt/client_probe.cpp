// Finds out which element types a device really takes.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/blocking_region.h"
#include "pjrt/client.h"
#include "pjrt/probe.h"

namespace torch_pjrt::pjrt {
namespace {

// Whether the first device gives a value of the type back. It may take a type by storing a narrower
// one, so the value is 1 in the lowest byte, which every type here holds: for floats the smallest
// number, so flushing it to zero shows too. Throws Error where the plugin refuses the type.
bool takes(const Client& client, ElementType type) {
  if (client.addressable_devices().empty()) return false;
  alignas(64) std::array<char, 64> sent{};
  std::array<char, 64> received{};
  sent[0] = 1;
  const size_t bytes = static_cast<size_t>(std::max(8, bit_width(type))) / 8;
  HostArray source;
  source.data = sent.data();
  source.type = type;
  source.device = client.addressable_devices().front();
  const HostTransfer transfer = client.buffer_from_host(source);
  transfer.done_with_host_buffer.await();
  if (transfer.buffer.element_type() != type) return false;
  transfer.buffer.copy_to_host(received.data(), bytes).await();
  return std::memcmp(sent.data(), received.data(), bytes) == 0;
}

}  // namespace

const std::vector<ElementType>& Client::probe_element_types() const {
  if (element_types_known_.load(std::memory_order_acquire)) return element_types_;
  // Outside the lock: the probes wait, and then take the GIL again.
  const base::BlockingRegion region;
  std::lock_guard lock(element_types_mutex_);
  if (element_types_known_.load(std::memory_order_relaxed)) return element_types_;
  constexpr int kFirst = static_cast<int>(ElementType::kPred);
  constexpr int kLast = static_cast<int>(ElementType::kF4E2M1FN);
  std::vector<ElementType> taken;
  for (int value = kFirst; value <= kLast; ++value) {
    const auto type = static_cast<ElementType>(value);
    if (bit_width(type) > 0 && probe([&] { return takes(*this, type); })) taken.push_back(type);
  }
  element_types_ = std::move(taken);
  element_types_known_.store(true, std::memory_order_release);
  return element_types_;
}

bool Client::supports(ElementType type) const {
  const auto& types = probe_element_types();
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace torch_pjrt::pjrt
