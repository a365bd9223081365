#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/call.h"
#include "pjrt/options.h"
#include "pjrt_c_api.h"

namespace torch_pjrt::pjrt {

// A loaded plugin library. It stays loaded until the process ends: runtime threads of its own may
// run in it. All functions may be called from any thread.
class Plugin {
 public:
  // Loads the library at `path` once (later calls with the same file return the same plugin) and
  // initialises it. Throws Error: kNotFound for a missing file, kInvalidArgument for a file that is
  // no shared library or no plugin, kFailedPrecondition for another major version of the API.
  static std::shared_ptr<const Plugin> load(const std::string& path);

  const PJRT_Api* api() const noexcept { return api_; }
  const std::string& path() const noexcept { return path_; }
  // {major, minor}
  std::pair<int, int> api_version() const noexcept;

  // What the plugin says of itself: xla_version, stablehlo_current_version... Empty if it lacks
  // the function.
  Options attributes() const;

  // Names of its extensions in the plugin's order; an unknown one reads "extension 42".
  std::vector<std::string> extension_names() const;
  // The extension's struct, or null. It lives as long as the process.
  const PJRT_Extension_Base* extension(PJRT_Extension_Type type) const noexcept;

  // supports(&PJRT_Api::PJRT_Client_DmaMap)
  template <typename Function>
  bool supports(Function* PJRT_Api::* entry) const noexcept {
    return has_function(api_, entry);
  }

 private:
  Plugin(const PJRT_Api* api, std::string path) : api_(api), path_(std::move(path)) {}

  const PJRT_Api* api_;
  std::string path_;
};

// The path of the plugin that this table came from, for messages; empty if it is not ours.
std::string plugin_path(const PJRT_Api* api) noexcept;

}  // namespace torch_pjrt::pjrt
