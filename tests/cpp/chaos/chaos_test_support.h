#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "chaos.h"
#include "pjrt/client.h"
#include "pjrt/on_each_plugin.h"
#include "pjrt/plugin.h"

namespace torch_pjrt {

// A copy of the chaos library, since each wraps one plugin; deleted once it is loaded.
class ChaosLibrary {
 public:
  ChaosLibrary() {
    static int number = 0;
    const char* const built = std::getenv("PJRT_CHAOS_LIBRARY");
    if (built == nullptr) throw std::runtime_error("set PJRT_CHAOS_LIBRARY to libpjrt_chaos.so");
    path_ = std::filesystem::temp_directory_path() /
            ("pjrt_chaos_" + std::to_string(getpid()) + "_" + std::to_string(number++) + ".so");
    std::filesystem::copy_file(built, path_, std::filesystem::copy_options::overwrite_existing);
  }
  ~ChaosLibrary() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The chaos plugin around one real plugin, with a client of two devices.
class Chaos {
 public:
  explicit Chaos(const std::string& wrapped_plugin, const std::string& options = "") {
    const ChaosLibrary library;
    setenv("PJRT_CHAOS_PLUGIN", wrapped_plugin.c_str(), 1);
    setenv("PJRT_CHAOS_OPTIONS", options.c_str(), 1);
    plugin_ = pjrt::Plugin::load(library.path());
    handle_ = dlopen(library.path().c_str(), RTLD_NOW | RTLD_NOLOAD);
    client_ = pjrt::Client::create(plugin_, {{"cpu_device_count", int64_t{2}}});
  }

  // One for each plugin and process, never destroyed.
  static Chaos& around(const std::string& wrapped_plugin) {
    static auto* const all = new std::map<std::string, std::unique_ptr<Chaos>>;
    auto& chaos = (*all)[wrapped_plugin];
    if (chaos == nullptr) chaos = std::make_unique<Chaos>(wrapped_plugin);
    return *chaos;
  }

  const pjrt::Plugin& plugin() const { return *plugin_; }
  pjrt::Client& client() const { return *client_; }
  const std::shared_ptr<const pjrt::Plugin>& shared_plugin() const { return plugin_; }
  const std::shared_ptr<pjrt::Client>& shared_client() const { return client_; }
  pjrt::Device device(size_t index = 0) const { return client_->addressable_devices().at(index); }

  void configure(const std::string& options) {
    const char* const problem =
        function<decltype(pjrt_chaos_configure)>("pjrt_chaos_configure")(options.c_str());
    if (problem != nullptr) throw std::runtime_error(problem);
  }
  int64_t count(const char* name) const {
    return function<decltype(pjrt_chaos_count)>("pjrt_chaos_count")(name);
  }
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  std::shared_ptr<const pjrt::Plugin> plugin_;
  void* handle_ = nullptr;
  std::shared_ptr<pjrt::Client> client_;
};

// A test that runs with the chaos plugin around each real one. It must give back all that the chaos
// plugin gave it.
class WithChaos : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    chaos().configure("");
    buffers_ = chaos().count("buffers_alive");
  }
  void TearDown() override {
    chaos().configure("");
    EXPECT_EQ(chaos().count("errors_alive"), 0);
    EXPECT_EQ(chaos().count("events_alive"), 0);
    EXPECT_EQ(chaos().count("buffers_alive"), buffers_);
  }
  Chaos& chaos() { return Chaos::around(GetParam()); }
  pjrt::Client& client() { return chaos().client(); }
  pjrt::Device device(size_t index = 0) { return chaos().device(index); }

 private:
  int64_t buffers_ = 0;
};

// The code of what `action` throws; kOk if it throws nothing.
template <typename Action>
pjrt::ErrorCode code_of(const Action& action) {
  try {
    action();
  } catch (const pjrt::Error& error) {
    return error.code();
  }
  return pjrt::ErrorCode::kOk;
}

}  // namespace torch_pjrt
