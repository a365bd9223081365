#pragma once

#include <cstdint>
#include <vector>

#include "pjrt/client.h"

namespace torch_pjrt::pjrt {

// Copies floats to a device and back, waiting.
inline Buffer put(const Client& client, Device device, const std::vector<float>& values) {
  const int64_t size = static_cast<int64_t>(values.size());
  HostArray source;
  source.data = values.data();
  source.type = ElementType::kF32;
  source.dimensions = {&size, 1};
  source.device = device;
  HostTransfer transfer = client.buffer_from_host(source);
  transfer.done_with_host_buffer.await();
  return std::move(transfer.buffer);
}

inline std::vector<float> get(const Buffer& buffer) {
  std::vector<float> values(static_cast<size_t>(buffer.dimensions()[0]));
  buffer.copy_to_host(values.data(), values.size() * sizeof(float)).await();
  return values;
}

}  // namespace torch_pjrt::pjrt
