#include "aten/accelerators.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/blocking_region.h"
#include "pjrt/client.h"

namespace torch_pjrt::aten {
namespace {

struct Row {
  c10::DeviceType torch;
  DLDeviceType dlpack;
  std::array<std::string_view, 3> platforms;  // of PJRT
};

// PyTorch's builds for ROCm call their devices cuda. A backend of others (PrivateUse1) is known by
// the name under which it is registered, which is to be that of its PJRT platform.
constexpr std::array<Row, 4> kRows{{
    {c10::kCUDA, kDLCUDA, {"cuda", "gpu"}},
    {c10::kCUDA, kDLROCM, {"rocm"}},
    {c10::kXPU, kDLOneAPI, {"sycl", "oneapi", "xpu"}},
    {c10::kPrivateUse1, kDLExtDev, {}},
}};

bool is_named(const Row& row, std::string_view platform) {
  if (row.torch == c10::kPrivateUse1) {
    return c10::is_privateuse1_backend_registered() && platform == c10::get_privateuse1_backend();
  }
  return std::find(row.platforms.begin(), row.platforms.end(), platform) != row.platforms.end();
}

const Row* row_of(std::string_view platform) {
  for (const Row& row : kRows) {
    if (is_named(row, platform)) return &row;
  }
  return nullptr;
}

bool is_present(c10::DeviceType type) {
  return c10::impl::hasDeviceGuardImpl(type) &&
         c10::impl::getDeviceGuardImpl(type)->deviceCount() > 0;
}

std::optional<c10::Device> ask_driver(const graph::Executor& executor, c10::DeviceType type) {
  constexpr int64_t bytes = 256;
  const std::array<char, bytes> zeros{};
  try {
    pjrt::HostArray array;
    array.data = zeros.data();
    array.type = pjrt::ElementType::kU8;
    array.dimensions = {&bytes, 1};
    array.device = executor.device();
    const pjrt::HostTransfer given = executor.client()->buffer_from_host(array);
    given.buffer.ready_event().await("find an accelerator's device");
    return at::globalContext().getDeviceFromPtr(given.buffer.device_pointer(), type);
  } catch (const pjrt::Error&) {
    return std::nullopt;  // a device whose memory has no address
  } catch (const c10::Error&) {
    return std::nullopt;  // the driver does not know the address
  }
}

struct Known {
  uint64_t client;  // its id
  int executor;     // its index
  std::optional<c10::Device> companion;
};

}  // namespace

bool is_accelerator(c10::DeviceType type) noexcept {
  return std::any_of(kRows.begin(), kRows.end(), [&](const Row& row) { return row.torch == type; });
}

std::optional<c10::Device> companion_of(const graph::Executor& executor) {
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::vector<Known>;
  const uint64_t client = executor.client()->id();
  {
    const std::lock_guard lock(*mutex);
    for (const Known& entry : *known) {
      if (entry.client == client && entry.executor == executor.index()) return entry.companion;
    }
  }
  const Row* const row = row_of(executor.client()->platform_name());
  if (!row || !is_present(row->torch)) return std::nullopt;  // its backend may yet be loaded
  const std::optional<c10::Device> companion = ask_driver(executor, row->torch);
  const std::lock_guard lock(*mutex);
  known->push_back({client, executor.index(), companion});
  return companion;
}

std::optional<DLDevice> dlpack_accelerator(const graph::Executor& executor) {
  const Row* const row = row_of(executor.client()->platform_name());
  if (!row) return std::nullopt;
  if (const auto companion = companion_of(executor))
    return DLDevice{row->dlpack, companion->index()};
  if (is_present(row->torch)) return std::nullopt;  // it is there, and the memory is not its
  return DLDevice{row->dlpack, executor.device().local_hardware_id()};
}

}  // namespace torch_pjrt::aten
