#include "transfer/device_to_device.h"

#include <utility>

#include "pjrt/error.h"
#include "transfer/device_to_host.h"
#include "transfer/host_to_device.h"
#include "transfer/strided_copy.h"
#include "transfer/transfer_figures.h"

namespace torch_pjrt::transfer {
namespace {

struct BetweenDevicesFigures {
  TransferFigures all{"transfer.device_to_device"};
  TransferFigures bounced{"transfer.device_to_device.bounced"};
};

BetweenDevicesFigures& between_devices_figures() {
  static BetweenDevicesFigures* const figures = new BetweenDevicesFigures;
  return *figures;
}

pjrt::Buffer through_host(const pjrt::Client& source_client, const pjrt::Buffer& buffer,
                          const pjrt::Client& target_client, pjrt::Device device, size_t bytes) {
  const pjrt::ArraySpec array{buffer.element_type(), buffer.dimensions()};
  HostBlock block = HostMemoryPool::shared().allocate(bytes);
  device_to_host(source_client, buffer, {block.data(), array.dimensions, {}});
  return block_to_device(target_client, device, array, std::move(block));
}

}  // namespace

pjrt::Buffer device_to_device(const pjrt::Client& source_client, const pjrt::Buffer& buffer,
                              const pjrt::Client& target_client, pjrt::Device device) {
  const size_t item = static_cast<size_t>(pjrt::bit_width(buffer.element_type()) + 7) / 8;
  const size_t bytes = item * static_cast<size_t>(element_count(buffer.dimensions()));
  MeasuredTransfer measured(between_devices_figures().all, bytes);
  // Plugins refuse a copy to the device that the buffer is on.
  if (source_client.get() == target_client.get() && buffer.device() != device) {
    try {
      return buffer.copy_to_device(device);
    } catch (const pjrt::Error& error) {
      if (error.code() != pjrt::ErrorCode::kUnimplemented) throw;
    }
  }
  measured.took(between_devices_figures().bounced);
  return through_host(source_client, buffer, target_client, device, bytes);
}

}  // namespace torch_pjrt::transfer
