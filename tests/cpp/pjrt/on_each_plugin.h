#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/plugin.h"

namespace torch_pjrt::pjrt {

// The plugins that tests run on: the paths in TORCH_PJRT_TEST_PLUGINS, separated by colons.
inline std::vector<std::string> test_plugins() {
  const char* paths = std::getenv("TORCH_PJRT_TEST_PLUGINS");
  std::istringstream text(paths != nullptr ? paths : "");
  std::vector<std::string> result;
  for (std::string path; std::getline(text, path, ':');) {
    if (!path.empty()) result.push_back(path);
  }
  return result;
}

// One client for each plugin and device count in the process. It is leaked, as in real use: buffers
// must not outlive it.
inline const std::shared_ptr<Client>& shared_client(const std::string& path, int64_t devices = 1) {
  static auto* const clients =
      new std::map<std::pair<std::string, int64_t>, std::shared_ptr<Client>>;
  auto& client = (*clients)[{path, devices}];
  if (client == nullptr) {
    client = Client::create(Plugin::load(path), {{"cpu_device_count", devices}});
  }
  return client;
}

class OnEachPlugin : public testing::TestWithParam<std::string> {
 protected:
  Client& client(int64_t devices = 1) const { return *shared_client(GetParam(), devices); }
  Device device() const { return client().addressable_devices().front(); }
};

// A readable suffix from the plugin's file: libpjrt_cpu, xla_cpu_pjrt...
inline std::string plugin_test_name(const testing::TestParamInfo<std::string>& info) {
  const size_t slash = info.param.rfind('/');
  std::string stem = info.param.substr(slash + 1);
  stem = stem.substr(0, stem.rfind('.'));
  for (char& c : stem) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return stem;
}

}  // namespace torch_pjrt::pjrt

// An empty list of plugins makes the suite fail rather than pass without a test.
#define RUN_ON_EACH_PLUGIN(Suite)                                                                 \
  INSTANTIATE_TEST_SUITE_P(Plugins, Suite, testing::ValuesIn(::torch_pjrt::pjrt::test_plugins()), \
                           ::torch_pjrt::pjrt::plugin_test_name)
