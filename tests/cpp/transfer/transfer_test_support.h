#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/plugin.h"

namespace torch_pjrt::transfer {

inline std::vector<std::string> plugin_paths() {
  std::vector<std::string> paths;
  const char* text = std::getenv("TORCH_PJRT_TEST_PLUGINS");
  std::istringstream list(text ? text : "");
  for (std::string path; std::getline(list, path, ':');) paths.push_back(path);
  return paths;
}

// One client of two devices for each plugin, for all tests of the process.
inline pjrt::Client& client_of(const std::string& path) {
  struct Entry {
    std::string path;
    std::shared_ptr<pjrt::Client> client;
  };
  static auto* const clients = new std::vector<Entry>;  // never destroyed: the process ends first
  for (const Entry& entry : *clients) {
    if (entry.path == path) return *entry.client;
  }
  pjrt::Options options;
  options.emplace("cpu_device_count", int64_t{2});
  clients->push_back({path, pjrt::Client::create(pjrt::Plugin::load(path), options)});
  return *clients->back().client;
}

// A test that runs on each plugin.
class OnEachPlugin : public testing::TestWithParam<std::string> {
 protected:
  pjrt::Client& client() { return client_of(GetParam()); }
  pjrt::Device device(size_t index = 0) { return client().addressable_devices().at(index); }
};

inline std::string plugin_name(const testing::TestParamInfo<std::string>& info) {
  return "Plugin" + std::to_string(info.index);
}

#define ON_EACH_PLUGIN(suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(, suite, testing::ValuesIn(::torch_pjrt::transfer::plugin_paths()), \
                           ::torch_pjrt::transfer::plugin_name)

}  // namespace torch_pjrt::transfer
