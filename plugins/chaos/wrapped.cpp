#include "wrapped.h"

#include <dlfcn.h>

#include <atomic>

namespace pjrt_chaos {
namespace {
std::atomic<const PJRT_Api*> table{nullptr};
}

const PJRT_Api* wrapped() noexcept { return table.load(std::memory_order_acquire); }

ErrorText load_wrapped(const std::string& path) {
  const std::string asked = "wrap the PJRT plugin '" + path + "': ";
  if (path.empty()) {
    return {PJRT_Error_Code_NOT_FOUND,
            "wrap a PJRT plugin: none is named; set PJRT_CHAOS_PLUGIN to its library's path"};
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return {PJRT_Error_Code_NOT_FOUND, asked + (reason != nullptr ? reason : "it does not load")};
  }
  void* symbol = dlsym(library, "GetPjrtApi");
  if (symbol == nullptr) {
    return {PJRT_Error_Code_INVALID_ARGUMENT, asked + "it has no function GetPjrtApi"};
  }
  const PJRT_Api* api = reinterpret_cast<const PJRT_Api* (*)()>(symbol)();
  if (api == nullptr || api->pjrt_api_version.major_version != PJRT_API_MAJOR) {
    return {PJRT_Error_Code_FAILED_PRECONDITION,
            asked + "its table is of another major version than " + std::to_string(PJRT_API_MAJOR)};
  }
  table.store(api, std::memory_order_release);
  return {};
}

}  // namespace pjrt_chaos
