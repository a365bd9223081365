#pragma once

#include <cstdint>
#include <optional>

#include <c10/core/Device.h>

#include "graph/executor.h"

namespace torch_pjrt::aten {

// The current device of the calling thread.
int current_device() noexcept;
void set_current_device(int index) noexcept;

// The executor of `device`, or of the current device when it has no index.
graph::Executor& executor_of(c10::Device device);
graph::Executor& executor_of(std::optional<c10::Device> device);

}  // namespace torch_pjrt::aten
