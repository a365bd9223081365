#include "pjrt/create_options.h"

#include <string>

#include "pjrt/error.h"

namespace torch_pjrt::pjrt {
namespace {
constexpr const char* kDeviceCount = "cpu_device_count";
constexpr int64_t kMostDevices = 4096;
constexpr int kLastMinorVersionThatIgnores = 106;
}  // namespace

void check_create_options(const Options& options, std::string_view what_was_asked) {
  const auto found = options.find(kDeviceCount);
  if (found == options.end()) return;
  const auto* count = std::get_if<int64_t>(&found->second);
  if (count != nullptr && *count >= 1 && *count <= kMostDevices) return;
  throw Error(ErrorCode::kInvalidArgument, what_was_asked,
              std::string(kDeviceCount) + " is no count of devices; got " + to_text(found->second) +
                  ", expected an integer from 1 to " + std::to_string(kMostDevices));
}

void check_ignored_options(const Options& options, std::string_view platform_name,
                           int api_minor_version, std::string_view what_was_asked) {
  if (platform_name != "cpu" || api_minor_version > kLastMinorVersionThatIgnores) return;
  for (const auto& [key, value] : options) {
    if (key == kDeviceCount) continue;
    throw Error(ErrorCode::kInvalidArgument, what_was_asked,
                "the plugin knows no option '" + key + "'; expected only " + kDeviceCount +
                    "; leave it out");
  }
}

}  // namespace torch_pjrt::pjrt
