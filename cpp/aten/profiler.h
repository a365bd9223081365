#pragma once

namespace torch_pjrt::aten {

// Makes the core's ranges (transfers, compilations, executions) ranges of torch.profiler, while one
// is at work.
void show_ranges_to_profiler() noexcept;

}  // namespace torch_pjrt::aten
