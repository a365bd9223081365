// Finds out which element types a device really takes.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/blocking_region.h"
#include "pjrt/client.h"

namespace torch_pjrt::pjrt {

const std::vector<ElementType>& Client::probe_element_types() const {
  if (element_types_known_.load(std::memory_order_acquire)) return element_types_;
  // Outside the lock that call_once is: the probes wait, and then take the GIL again.
  const base::BlockingRegion region;
  std::call_once(element_types_once_, [this] {
    constexpr int kFirst = static_cast<int>(ElementType::kPred);
    constexpr int kLast = static_cast<int>(ElementType::kF4E2M1FN);
    for (int value = kFirst; value <= kLast; ++value) {
      const auto type = static_cast<ElementType>(value);
      if (bit_width(type) > 0 && accepts(type)) element_types_.push_back(type);
    }
    element_types_known_.store(true, std::memory_order_release);
  });
  return element_types_;
}

bool Client::supports(ElementType type) const {
  const auto& types = probe_element_types();
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool Client::accepts(ElementType type) const noexcept {
  if (addressable_devices_.empty()) return false;
  // A device may take a type by storing a narrower one, so the value must come back. It is 1 in the
  // lowest byte, which every type here holds: for floats the smallest number, so flushing it to
  // zero shows too.
  alignas(64) std::array<char, 64> sent{};
  std::array<char, 64> received{};
  sent[0] = 1;
  const size_t bytes = static_cast<size_t>(std::max(8, bit_width(type))) / 8;
  HostArray source;
  source.data = sent.data();
  source.type = type;
  source.device = addressable_devices_.front();
  try {
    const HostTransfer transfer = buffer_from_host(source);
    transfer.done_with_host_buffer.await();
    if (transfer.buffer.element_type() != type) return false;
    transfer.buffer.copy_to_host(received.data(), bytes).await();
    return std::memcmp(sent.data(), received.data(), bytes) == 0;
  } catch (const std::exception&) {
    return false;  // refusing is an answer here
  }
}

}  // namespace torch_pjrt::pjrt
