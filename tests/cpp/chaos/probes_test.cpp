// What is found out about a plugin once: a failure that passes must not become the answer.
#include "chaos/chaos_test_support.h"
#include "transfer/host_addressing.h"

namespace torch_pjrt {
namespace {

using pjrt::Client;
using pjrt::ErrorCode;

class Probes : public WithChaos {
 protected:
  // Of which nothing is known yet.
  std::shared_ptr<Client> fresh() { return Client::create(chaos().shared_plugin()); }
  std::vector<pjrt::ElementType> types() { return fresh()->probe_element_types(); }
};
RUN_ON_EACH_PLUGIN(Probes);

constexpr const char* kProbing[] = {"PJRT_Client_BufferFromHostBuffer",
                                    "PJRT_Buffer_ElementType",
                                    "PJRT_Buffer_ToHostBuffer",
                                    "PJRT_Event_Error",
                                    "PJRT_Buffer_ReadyEvent",
                                    "PJRT_Buffer_IsOnCpu",
                                    "PJRT_Buffer_OpaqueDeviceMemoryDataPointer"};

TEST_P(Probes, AreNotMisledByOneFailure) {
  const auto expected = types();
  ASSERT_FALSE(expected.empty());
  const bool shares = transfer::uses_host_memory(*fresh());
  for (const char* function : kProbing) {
    for (const char* code : {"RESOURCE_EXHAUSTED", "INTERNAL"}) {
      const std::string failure = std::string("fail=") + function + ":1:" + code;
      const std::shared_ptr<Client> types_of = fresh(), memory_of = fresh();
      chaos().configure(failure);
      EXPECT_EQ(types_of->probe_element_types(), expected) << failure;
      chaos().configure(failure);
      EXPECT_EQ(transfer::uses_host_memory(*memory_of), shares) << failure;
      chaos().configure("");
    }
  }
}

TEST_P(Probes, RememberNothingOfWhatMayPass) {
  const auto expected = types();
  const std::shared_ptr<Client> client = fresh();
  chaos().configure("fail=PJRT_Client_BufferFromHostBuffer:*:UNAVAILABLE");
  EXPECT_EQ(code_of([&] { client->probe_element_types(); }), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of([&] { transfer::uses_host_memory(*client); }), ErrorCode::kUnavailable);
  chaos().configure("");
  EXPECT_EQ(client->probe_element_types(), expected);
  EXPECT_EQ(transfer::uses_host_memory(*client), transfer::uses_host_memory(*fresh()));
}

TEST_P(Probes, TakeARefusalForAnAnswer) {
  const std::shared_ptr<Client> client = fresh();
  chaos().configure("fail=PJRT_Buffer_OpaqueDeviceMemoryDataPointer:*:UNIMPLEMENTED");
  EXPECT_FALSE(transfer::uses_host_memory(*client));
  chaos().configure("");
  EXPECT_FALSE(transfer::uses_host_memory(*client));
}

}  // namespace
}  // namespace torch_pjrt
