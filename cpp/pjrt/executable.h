#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/device.h"
#include "pjrt/element_type.h"
#include "pjrt/event.h"
#include "pjrt/options.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

struct ExecuteOptions {
  // Arguments that stay usable although the program would take their memory.
  std::span<const int64_t> non_donatable;
  // Where a portable program runs. Null: the device it was compiled for.
  Device device;
  int launch_id = 0;
  // "file.py:12" of the user's line, null-terminated, or null.
  const char* call_location = nullptr;
  // Marks a BlockingRegion: some executions run on, or wait in, the calling thread.
  bool may_block = false;
};

// In bytes.
struct CompiledMemoryStats {
  int64_t generated_code = 0;
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0;
  int64_t temporaries = 0;
  int64_t peak = 0;
};

// Owns a compiled program, loaded on its devices. The client must outlive it. `execute` may be
// called from several threads at once.
class LoadedExecutable {
 public:
  LoadedExecutable() noexcept = default;
  LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* executable);  // takes ownership
  LoadedExecutable(LoadedExecutable&& other) noexcept;
  LoadedExecutable& operator=(LoadedExecutable&& other) noexcept;
  ~LoadedExecutable() { destroy(); }

  explicit operator bool() const noexcept { return loaded_ != nullptr; }
  PJRT_LoadedExecutable* get() const noexcept { return loaded_; }

  // Runs on one device. `outputs` is cleared and gets num_outputs() buffers (its capacity is used
  // again), which may not be ready yet. A donated argument is deleted by this. If `complete` is
  // given it gets an event that is ready when the execution is. On an error nothing was launched,
  // but donated arguments may be gone with some plugins; failures of the computation itself come
  // with the outputs' and `complete`'s events.
  void execute(std::span<PJRT_Buffer* const> arguments, const ExecuteOptions& options,
               std::vector<Buffer>& outputs, Event* complete = nullptr) const;

  size_t num_outputs() const noexcept { return num_outputs_; }
  std::vector<ElementType> output_types() const;
  std::vector<std::vector<int64_t>> output_dimensions() const;

  std::string name() const;
  // Equal for equal programs and compilers; empty if the plugin gives none.
  std::string fingerprint() const;
  std::vector<Device> addressable_devices() const;

  // Bytes for Client::deserialize of the same plugin. kUnimplemented if it cannot.
  std::string serialize() const;

  int64_t generated_code_bytes() const;
  // Empty if the plugin does not tell.
  std::optional<CompiledMemoryStats> memory_stats() const;
  // "flops", "bytes accessed"...; empty if the plugin does not tell.
  Options cost_analysis() const;

  bool is_deleted() const;

 private:
  void destroy() noexcept;

  const PJRT_Api* api_ = nullptr;
  PJRT_LoadedExecutable* loaded_ = nullptr;
  PJRT_Executable* executable_ = nullptr;
  size_t num_outputs_ = 0;
};

}  // namespace torch_pjrt::pjrt
