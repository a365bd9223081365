#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

#include "base/blocking_region.h"

namespace torch_pjrt::pjrt {
namespace {

struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Plugin>> by_path;
};

// Never destroyed: error messages name a plugin until the very end.
Loaded& loaded() {
  static Loaded* const instance = new Loaded;
  return *instance;
}

const PJRT_Api* open_api(const std::string& path, const std::string& asked) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorCode::kInvalidArgument, asked,
                "it is not a shared library that loads here: " +
                    std::string(reason != nullptr ? reason : "no reason given"));
  }
  void* symbol = dlsym(library, "GetPjrtApi");
  if (symbol == nullptr) {
    dlclose(library);  // nothing of it ran beyond its static initialisers
    throw Error(ErrorCode::kInvalidArgument, asked,
                "it is a shared library, but no PJRT plugin: it has no function GetPjrtApi; name "
                "the plugin's own library");
  }
  const PJRT_Api* api = reinterpret_cast<const PJRT_Api* (*)()>(symbol)();
  if (api == nullptr) {
    throw Error(ErrorCode::kInternal, asked, "its GetPjrtApi returned nothing");
  }
  return api;
}

void check_version(const PJRT_Api* api, const std::string& asked) {
  const PJRT_Api_Version& version = api->pjrt_api_version;
  if (version.major_version == PJRT_API_MAJOR) return;
  throw Error(ErrorCode::kFailedPrecondition, asked,
              "its PJRT API has an incompatible major version; got " +
                  std::to_string(version.major_version) + '.' +
                  std::to_string(version.minor_version) + ", expected " +
                  std::to_string(PJRT_API_MAJOR) + ".x; use a plugin that fits this build");
}

// As a number: a newer plugin has types that the header's enum cannot hold.
int type_of(const PJRT_Extension_Base* extension) noexcept {
  static_assert(sizeof(PJRT_Extension_Type) == sizeof(int));
  int type = 0;
  std::memcpy(&type, &extension->type, sizeof type);
  return type;
}

const char* known_extension(int type) noexcept {
  static constexpr const char* kNames[] = {"gpu_custom_call",
                                           "profiler",
                                           "custom_partitioner",
                                           "stream",
                                           "layouts",
                                           "ffi",
                                           "memory_descriptions",
                                           "triton",
                                           "raw_buffer",
                                           "phase_compile",
                                           "example",
                                           "unknown",
                                           "cross_host_transfers",
                                           "executable_metadata",
                                           "callback",
                                           "host_allocator"};
  static_assert(std::size(kNames) == PJRT_Extension_Type_HostAllocator + 1);
  const auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : nullptr;
}

}  // namespace

std::shared_ptr<const Plugin> Plugin::load(const std::string& path) {
  const std::string asked = "load the PJRT plugin '" + path + "'";
  std::error_code problem;
  const std::filesystem::path real = std::filesystem::canonical(path, problem);
  if (problem) {
    throw Error(ErrorCode::kNotFound, asked,
                "the file cannot be found (" + problem.message() + "); check the path");
  }
  if (!std::filesystem::is_regular_file(real, problem)) {
    throw Error(ErrorCode::kInvalidArgument, asked,
                "it is not a file; name the plugin's shared library");
  }

  Loaded& all = loaded();
  base::BlockingRegion region;  // before the lock: leaving it may wait for the GIL
  std::lock_guard lock(all.mutex);
  auto& slot = all.by_path[real.string()];
  if (slot == nullptr) {
    const PJRT_Api* api = open_api(real.string(), asked);
    check_version(api, asked);
    std::shared_ptr<const Plugin> plugin(new Plugin(api, real.string()));
    if (plugin->supports(&PJRT_Api::PJRT_Plugin_Initialize)) {
      TORCH_PJRT_ARGS(PJRT_Plugin_Initialize, args);
      check(api, api->PJRT_Plugin_Initialize(&args), asked);
    }
    slot = std::move(plugin);
  }
  return slot;
}

std::pair<int, int> Plugin::api_version() const noexcept {
  return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version};
}

Options Plugin::attributes() const {
  if (!supports(&PJRT_Api::PJRT_Plugin_Attributes)) return {};
  TORCH_PJRT_ARGS(PJRT_Plugin_Attributes, args);
  TORCH_PJRT_CALL(api_, PJRT_Plugin_Attributes, args, "read the plugin's attributes");
  return from_named_values(args.attributes, args.num_attributes);
}

std::vector<std::string> Plugin::extension_names() const {
  std::vector<std::string> names;
  for (const auto* at = api_->extension_start; at != nullptr; at = at->next) {
    const int type = type_of(at);
    const char* known = known_extension(type);
    names.push_back(known != nullptr ? known : "extension " + std::to_string(type));
  }
  return names;
}

const PJRT_Extension_Base* Plugin::extension(PJRT_Extension_Type type) const noexcept {
  for (const auto* at = api_->extension_start; at != nullptr; at = at->next) {
    if (type_of(at) == static_cast<int>(type)) return at;
  }
  return nullptr;
}

std::string plugin_path(const PJRT_Api* api) noexcept {
  try {
    Loaded& all = loaded();
    std::lock_guard lock(all.mutex);
    for (const auto& [path, plugin] : all.by_path) {
      if (plugin != nullptr && plugin->api() == api) return path;
    }
  } catch (const std::exception&) {
    // The caller has an error to tell already; it does without the path.
  }
  return {};
}

}  // namespace torch_pjrt::pjrt
