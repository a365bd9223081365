#include "pjrt/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "on_each_plugin.h"

namespace torch_pjrt::pjrt {
namespace {

class ClientOnPlugin : public OnEachPlugin {};

TEST_P(ClientOnPlugin, TellsItsPlatformDevicesAndMemories) {
  const Client& one = client();
  EXPECT_EQ(one.platform_name(), "cpu");
  EXPECT_FALSE(one.platform_version().empty());
  EXPECT_EQ(one.process_index(), 0);
  ASSERT_EQ(one.addressable_devices().size(), 1u);
  EXPECT_FALSE(one.addressable_memories().empty());

  const Device first = device();
  EXPECT_TRUE(first.is_addressable());
  EXPECT_EQ(first.process_index(), 0);
  EXPECT_EQ(first.local_hardware_id(), 0);
  EXPECT_FALSE(first.kind().empty());
  EXPECT_FALSE(first.debug_string().empty());
  EXPECT_NO_THROW(first.attributes());
  EXPECT_NO_THROW(first.memory_stats());
  const auto memories = first.memories();
  EXPECT_NE(std::find(memories.begin(), memories.end(), first.default_memory()), memories.end());
  EXPECT_FALSE(first.default_memory().kind().empty());
  EXPECT_FALSE(first.default_memory().debug_string().empty());
  EXPECT_EQ(first.default_memory().devices().at(0), first);
}

TEST_P(ClientOnPlugin, MakesAsManyDevicesAsAsked) {
  const Client& two = client(2);
  ASSERT_EQ(two.addressable_devices().size(), 2u);
  EXPECT_NE(two.addressable_devices()[0].id(), two.addressable_devices()[1].id());
  EXPECT_EQ(two.devices(), two.addressable_devices());
}

TEST_P(ClientOnPlugin, RefusesBadOptionsAndListsThem) {
  const auto plugin = Plugin::load(GetParam());
  for (const Options& options :
       {Options{{"no_such_option", int64_t{1}}}, Options{{"cpu_device_count", std::string("many")}},
        Options{{"cpu_device_count", int64_t{0}}}, Options{{"cpu_device_count", int64_t{-1}}}}) {
    try {
      Client::create(plugin, options);
      ADD_FAILURE() << "accepted " << to_text(options);
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << what;
      EXPECT_NE(what.find('{' + to_text(options) + '}'), std::string::npos) << what;
      EXPECT_NE(what.find(plugin->path()), std::string::npos) << what;
    }
  }
}

TEST_P(ClientOnPlugin, FindsTheElementTypesTheDeviceTakes) {
  const auto& types = client().probe_element_types();
  for (const auto type :
       {ElementType::kPred, ElementType::kS8, ElementType::kS32, ElementType::kS64,
        ElementType::kU8, ElementType::kU64, ElementType::kF16, ElementType::kBF16,
        ElementType::kF32, ElementType::kF64, ElementType::kC64, ElementType::kC128,
        ElementType::kF8E4M3FN, ElementType::kF8E5M2}) {
    EXPECT_TRUE(client().supports(type)) << name(type);
  }
  EXPECT_FALSE(client().supports(ElementType::kToken));
  EXPECT_FALSE(client().supports(ElementType::kInvalid));
  EXPECT_EQ(&client().probe_element_types(), &types);
}

RUN_ON_EACH_PLUGIN(ClientOnPlugin);

}  // namespace
}  // namespace torch_pjrt::pjrt
