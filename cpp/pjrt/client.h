#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/async_transfer.h"
#include "pjrt/buffer.h"
#include "pjrt/device.h"
#include "pjrt/element_type.h"
#include "pjrt/event.h"
#include "pjrt/executable.h"
#include "pjrt/memory.h"
#include "pjrt/options.h"
#include "pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// The values are those of PJRT_HostBufferSemantics (client_buffers.cpp asserts it).
enum class HostBufferSemantics {
  kImmutableOnlyDuringCall,          // read before the call returns
  kImmutableUntilTransferCompletes,  // read until the done event
  kImmutableZeroCopy,                // may be aliased; nobody writes it until the done event
  kMutableZeroCopy,                  // may be aliased and written by the device
};

struct HostArray {
  const void* data = nullptr;
  ElementType type = ElementType::kInvalid;
  std::span<const int64_t> dimensions;
  std::span<const int64_t> byte_strides;  // empty: dense, row-major
  HostBufferSemantics semantics = HostBufferSemantics::kImmutableOnlyDuringCall;
  Device device;
  Memory memory;  // null: the default memory of `device`
};

struct HostTransfer {
  Buffer buffer;
  Event done_with_host_buffer;  // ready when `data` is needed no more
};

// An array's shape without contents.
struct ArraySpec {
  ElementType type = ElementType::kInvalid;
  std::span<const int64_t> dimensions;
};

// Owns a client of a plugin and with it its devices and memories. Buffers, executables and events
// do not hold it: it must outlive them. All functions may be called from any thread.
class Client {
 public:
  // Throws Error that lists the options if the plugin refuses them. Marks a BlockingRegion.
  static std::shared_ptr<Client> create(std::shared_ptr<const Plugin> plugin,
                                        const Options& options = {});
  ~Client() { destroy(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const noexcept { return *plugin_; }
  const PJRT_Api* api() const noexcept { return plugin_->api(); }
  PJRT_Client* get() const noexcept { return client_; }
  // Tells this client from every other that was or will be made in this process, at whatever
  // address: for what is remembered of it elsewhere.
  uint64_t id() const noexcept { return id_; }

  const std::string& platform_name() const noexcept { return platform_name_; }
  const std::string& platform_version() const noexcept { return platform_version_; }
  int process_index() const;

  const std::vector<Device>& devices() const noexcept { return devices_; }
  const std::vector<Device>& addressable_devices() const noexcept { return addressable_devices_; }
  std::vector<Memory> addressable_memories() const;

  // Compiles a program (format "mlir": StableHLO text or bytecode) with serialized CompileOptions.
  // Marks a BlockingRegion. Counts `pjrt.compile` (a timer).
  LoadedExecutable compile(std::string_view program, std::string_view format,
                           std::string_view compile_options) const;
  // Loads what LoadedExecutable::serialize gave. Empty options: those it was compiled with.
  LoadedExecutable deserialize(std::string_view bytes, std::string_view compile_options = {}) const;

  // Starts a copy to a device, or adopts the memory as `semantics` allow. Does not wait for the
  // device, though kImmutableOnlyDuringCall copies on this thread.
  HostTransfer buffer_from_host(const HostArray& source) const;

  // Memory without defined contents.
  Buffer create_uninitialized(const ArraySpec& spec, Device device, Memory memory = {}) const;

  // A buffer over memory of `device` that somebody else owns, dense and row-major. `on_delete` (may
  // be null) is called once, from any thread, when the device needs it no more; it must not throw,
  // wait, or destroy PJRT objects. `stream` orders the contents on platforms that have streams.
  Buffer create_view(void* pointer, const ArraySpec& spec, Device device,
                     void (*on_delete)(void* pointer, void* argument), void* argument,
                     intptr_t stream = 0) const;

  AsyncTransfer create_async_transfer(std::span<const ArraySpec> specs, Memory memory) const;

  // Registers host memory for fast transfers, or ends that. kUnimplemented if the plugin cannot.
  void dma_map(void* data, size_t bytes) const;
  void dma_unmap(void* data) const;

  // Element types that the first addressable device takes and gives back unchanged, found by trying
  // each once. Marks a BlockingRegion the first time.
  const std::vector<ElementType>& probe_element_types() const;
  bool supports(ElementType type) const;

 private:
  Client(std::shared_ptr<const Plugin> plugin, PJRT_Client* client);
  void describe();
  void destroy() noexcept;

  static uint64_t next_id() noexcept {
    static std::atomic<uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  std::shared_ptr<const Plugin> plugin_;
  PJRT_Client* client_;
  const uint64_t id_ = next_id();
  std::string platform_name_;
  std::string platform_version_;
  std::vector<Device> devices_;
  std::vector<Device> addressable_devices_;
  mutable std::mutex element_types_mutex_;
  mutable std::atomic<bool> element_types_known_{false};
  mutable std::vector<ElementType> element_types_;
};

}  // namespace torch_pjrt::pjrt
