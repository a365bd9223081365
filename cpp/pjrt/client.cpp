#include "pjrt/client.h"

#include <exception>
#include <utility>

#include "base/blocking_region.h"
#include "base/metrics.h"
#include "pjrt/call.h"
#include "pjrt/create_options.h"

namespace torch_pjrt::pjrt {

std::shared_ptr<Client> Client::create(std::shared_ptr<const Plugin> plugin,
                                       const Options& options) {
  const std::string asked =
      "create a client of " + plugin->path() + " with options {" + to_text(options) + "}";
  check_create_options(options, asked);
  const NamedValues values(options);
  TORCH_PJRT_ARGS(PJRT_Client_Create, args);
  args.create_options = values.data();
  args.num_options = values.size();
  try {
    base::BlockingRegion region;
    TORCH_PJRT_CALL(plugin->api(), PJRT_Client_Create, args, asked);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // Not in the contract of the C API, but plugins do it when an option has the wrong kind.
    throw Error(ErrorCode::kInternal, asked,
                std::string("the plugin threw: ") + error.what() + "; check the options");
  }
  std::shared_ptr<Client> client(new Client(std::move(plugin), args.client));
  check_ignored_options(options, client->platform_name(), client->plugin().api_version().second,
                        asked);
  return client;
}

Client::Client(std::shared_ptr<const Plugin> plugin, PJRT_Client* client)
    : plugin_(std::move(plugin)), client_(client) {
  try {
    describe();
  } catch (...) {
    destroy();
    throw;
  }
}

void Client::describe() {
  TORCH_PJRT_ARGS(PJRT_Client_PlatformName, platform);
  platform.client = client_;
  TORCH_PJRT_CALL(api(), PJRT_Client_PlatformName, platform, "read the platform's name");
  platform_name_.assign(platform.platform_name, platform.platform_name_size);

  TORCH_PJRT_ARGS(PJRT_Client_PlatformVersion, version);
  version.client = client_;
  TORCH_PJRT_CALL(api(), PJRT_Client_PlatformVersion, version, "read the platform's version");
  platform_version_.assign(version.platform_version, version.platform_version_size);

  TORCH_PJRT_ARGS(PJRT_Client_Devices, all);
  all.client = client_;
  TORCH_PJRT_CALL(api(), PJRT_Client_Devices, all, "list the devices");
  for (size_t i = 0; i < all.num_devices; ++i) devices_.emplace_back(api(), all.devices[i]);

  TORCH_PJRT_ARGS(PJRT_Client_AddressableDevices, ours);
  ours.client = client_;
  TORCH_PJRT_CALL(api(), PJRT_Client_AddressableDevices, ours, "list the addressable devices");
  for (size_t i = 0; i < ours.num_addressable_devices; ++i) {
    addressable_devices_.emplace_back(api(), ours.addressable_devices[i]);
  }
}

void Client::destroy() noexcept {
  TORCH_PJRT_ARGS(PJRT_Client_Destroy, args);
  args.client = client_;
  base::BlockingRegion region;
  TORCH_PJRT_CALL_IN_DESTRUCTOR(api(), PJRT_Client_Destroy, args, "destroy a client");
}

int Client::process_index() const {
  TORCH_PJRT_ARGS(PJRT_Client_ProcessIndex, args);
  args.client = client_;
  TORCH_PJRT_CALL(api(), PJRT_Client_ProcessIndex, args, "read the process index");
  return args.process_index;
}

std::vector<Memory> Client::addressable_memories() const {
  TORCH_PJRT_ARGS(PJRT_Client_AddressableMemories, args);
  args.client = client_;
  TORCH_PJRT_CALL(api(), PJRT_Client_AddressableMemories, args, "list the memories");
  std::vector<Memory> memories;
  for (size_t i = 0; i < args.num_addressable_memories; ++i) {
    memories.emplace_back(api(), args.addressable_memories[i]);
  }
  return memories;
}

LoadedExecutable Client::compile(std::string_view program, std::string_view format,
                                 std::string_view compile_options) const {
  static base::Timer& time = base::timer("pjrt.compile");
  PJRT_Program source{};
  source.struct_size = PJRT_Program_STRUCT_SIZE;
  source.code = const_cast<char*>(program.data());  // only read: the field also serves as output
  source.code_size = program.size();
  source.format = format.data();
  source.format_size = format.size();
  TORCH_PJRT_ARGS(PJRT_Client_Compile, args);
  args.client = client_;
  args.program = &source;
  args.compile_options = compile_options.data();
  args.compile_options_size = compile_options.size();
  const base::BlockingRegion region;
  const base::ScopedTimer timed(time);
  TORCH_PJRT_CALL(api(), PJRT_Client_Compile, args, "compile a program");
  return {api(), args.executable};
}

LoadedExecutable Client::deserialize(std::string_view bytes,
                                     std::string_view compile_options) const {
  static base::Timer& time = base::timer("pjrt.deserialize");
  TORCH_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad, args);
  args.client = client_;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  if (!compile_options.empty()) {
    args.overridden_serialized_compile_options = compile_options.data();
    args.overridden_serialized_compile_options_size = compile_options.size();
  }
  const base::BlockingRegion region;
  const base::ScopedTimer timed(time);
  TORCH_PJRT_CALL(api(), PJRT_Executable_DeserializeAndLoad, args, "load a serialized program");
  return {api(), args.loaded_executable};
}

void Client::dma_map(void* data, size_t bytes) const {
  TORCH_PJRT_ARGS(PJRT_Client_DmaMap, args);
  args.client = client_;
  args.data = data;
  args.size = bytes;
  TORCH_PJRT_CALL(api(), PJRT_Client_DmaMap, args, "register host memory for transfers");
}

void Client::dma_unmap(void* data) const {
  TORCH_PJRT_ARGS(PJRT_Client_DmaUnmap, args);
  args.client = client_;
  args.data = data;
  TORCH_PJRT_CALL(api(), PJRT_Client_DmaUnmap, args, "end the registration of host memory");
}

}  // namespace torch_pjrt::pjrt
