// What a poorer device lacks: types, sharing, functions, extensions, memory.
#include <array>
#include <limits>

#include "chaos/chaos_test_support.h"
#include "pjrt/arrays.h"
#include "pjrt/programs.h"
#include "transfer/host_addressing.h"

namespace torch_pjrt {
namespace {

using pjrt::ElementType;
using pjrt::ErrorCode;

class ChaosRestrictions : public WithChaos {
 protected:
  ErrorCode transfer(ElementType type) {
    alignas(64) const std::array<char, 64> bytes{};
    pjrt::HostArray array;
    array.data = bytes.data();
    array.type = type;
    array.device = device();
    return code_of([&] { client().buffer_from_host(array); });
  }
  ErrorCode compile(const std::string& body, const std::string& result) {
    return code_of([&] {
      pjrt::compile(client(), "module {\n func.func public @main() -> " + result + " {\n" + body +
                                  " return %r : " + result + "\n }\n}");
    });
  }
  pjrt::HostTransfer adopt(const void* data, pjrt::HostBufferSemantics semantics) {
    static const int64_t size = 64;
    pjrt::HostArray array;
    array.data = data;
    array.type = ElementType::kU8;
    array.dimensions = {&size, 1};
    array.semantics = semantics;
    array.device = device();
    return client().buffer_from_host(array);
  }
};
RUN_ON_EACH_PLUGIN(ChaosRestrictions);

TEST_P(ChaosRestrictions, RefuseBuffersOfTypesThatTheDeviceLacks) {
  chaos().configure("lacks=tpu");
  EXPECT_EQ(transfer(ElementType::kF64), ErrorCode::kUnimplemented);
  EXPECT_EQ(transfer(ElementType::kS64), ErrorCode::kUnimplemented);
  EXPECT_EQ(transfer(ElementType::kC128), ErrorCode::kUnimplemented);
  EXPECT_EQ(transfer(ElementType::kF32), ErrorCode::kOk);
  EXPECT_EQ(transfer(ElementType::kC64), ErrorCode::kOk);
  chaos().configure("lacks=neuron,bf16");
  EXPECT_EQ(transfer(ElementType::kC64), ErrorCode::kUnimplemented);
  EXPECT_EQ(transfer(ElementType::kBF16), ErrorCode::kUnimplemented);
  EXPECT_EQ(transfer(ElementType::kS32), ErrorCode::kOk);
  EXPECT_EQ(chaos().count("types_refused"), 2);
}

TEST_P(ChaosRestrictions, RefuseProgramsWithTypesThatTheDeviceLacks) {
  chaos().configure("lacks=f64,s64,c64,pred");
  const std::string f32 = "tensor<2xf32>";
  const std::string constant = " %r = stablehlo.constant dense<1.0> : tensor<2xf32>\n";
  EXPECT_EQ(compile(constant, f32), ErrorCode::kOk);
  EXPECT_EQ(compile(" %r = stablehlo.constant dense<1.0> : tensor<2xf64>\n", "tensor<2xf64>"),
            ErrorCode::kUnimplemented);
  EXPECT_EQ(compile(" %a = stablehlo.constant dense<1> : tensor<2xi64>\n" + constant, f32),
            ErrorCode::kUnimplemented);
  EXPECT_EQ(compile(" %a = stablehlo.constant dense<true> : tensor<i1>\n" + constant, f32),
            ErrorCode::kUnimplemented);
  EXPECT_EQ(compile(" %a = stablehlo.constant dense<1.0> : tensor<2x2xf32>\n"
                    " %z = stablehlo.complex %a, %a : tensor<2x2xcomplex<f32>>\n" +
                        constant,
                    f32),
            ErrorCode::kUnimplemented);
  // An attribute's type is no value on the device.
  EXPECT_EQ(compile(" %a = stablehlo.constant dense<1.0> : tensor<2xf32>\n"
                    " %r = \"stablehlo.all_reduce\"(%a) ({\n"
                    " ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
                    "  %s = stablehlo.add %x, %y : tensor<f32>\n"
                    "  stablehlo.return %s : tensor<f32>\n"
                    " }) {replica_groups = dense<0> : tensor<1x1xi64>} : "
                    "(tensor<2xf32>) -> tensor<2xf32>\n",
                    f32),
            ErrorCode::kOk);
}

TEST_P(ChaosRestrictions, AreSeenByTheProbeForTypes) {
  chaos().configure("lacks=neuron");
  const auto fresh = pjrt::Client::create(chaos().shared_plugin());
  EXPECT_FALSE(fresh->supports(ElementType::kF64));
  EXPECT_FALSE(fresh->supports(ElementType::kC64));
  EXPECT_TRUE(fresh->supports(ElementType::kF32));
}

TEST_P(ChaosRestrictions, CopyWhereSharingIsAskedForAndRefused) {
  alignas(64) std::array<char, 64> bytes{};
  const auto read = [](const pjrt::Buffer& buffer) {
    std::array<char, 64> values{};
    buffer.copy_to_host(values.data(), values.size()).await();
    return values;
  };
  for (const auto semantics : {pjrt::HostBufferSemantics::kImmutableZeroCopy,
                               pjrt::HostBufferSemantics::kMutableZeroCopy}) {
    for (const bool refused : {false, true}) {
      chaos().configure(refused ? "aliasing=refused" : "");
      bytes[5] = 1;
      const pjrt::HostTransfer given = adopt(bytes.data(), semantics);
      given.buffer.ready_event().await();
      if (refused) given.done_with_host_buffer.await();
      bytes[5] = 2;
      EXPECT_EQ(read(given.buffer)[5], refused ? 1 : 2);
      EXPECT_EQ(given.buffer.is_on_cpu(), !refused);
      EXPECT_EQ(code_of([&] { given.buffer.device_pointer(); }),
                refused ? ErrorCode::kUnimplemented : ErrorCode::kOk);
      EXPECT_EQ(code_of([&] { given.buffer.unsafe_pointer(); }),
                refused ? ErrorCode::kUnimplemented : ErrorCode::kOk);
    }
  }
  const int64_t size = 64;
  EXPECT_EQ(code_of([&] {
              client().create_view(bytes.data(), {ElementType::kU8, {&size, 1}}, device(), nullptr,
                                   nullptr);
            }),
            ErrorCode::kUnimplemented);
}

TEST_P(ChaosRestrictions, HideFunctionsAndTheEndOfTheTable) {
  const PJRT_Api* const api = chaos().plugin().api();
  chaos().configure("hide=PJRT_Buffer_CopyToDevice,PJRT_Client_DmaMap");
  EXPECT_EQ(api->PJRT_Buffer_CopyToDevice, nullptr);
  EXPECT_EQ(api->PJRT_Client_DmaMap, nullptr);
  EXPECT_NE(api->PJRT_Buffer_ToHostBuffer, nullptr);
  chaos().configure("last_function=PJRT_Compile");
  EXPECT_EQ(api->struct_size, PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Compile));
  EXPECT_FALSE(chaos().plugin().supports(&PJRT_Api::PJRT_Buffer_CopyToMemory));
  EXPECT_TRUE(chaos().plugin().supports(&PJRT_Api::PJRT_Compile));
  chaos().configure("");
  EXPECT_TRUE(chaos().plugin().supports(&PJRT_Api::PJRT_Buffer_CopyToMemory));
}

TEST_P(ChaosRestrictions, HideExtensions) {
  const auto all = chaos().plugin().extension_names();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all, pjrt::Plugin::load(GetParam())->extension_names());
  chaos().configure("hide_extensions=all");
  EXPECT_TRUE(chaos().plugin().extension_names().empty());
  chaos().configure("hide_extensions=Layouts");
  auto without = all;
  std::erase(without, "layouts");
  ASSERT_EQ(without.size(), all.size() - 1);
  EXPECT_EQ(chaos().plugin().extension_names(), without);
}

TEST_P(ChaosRestrictions, LimitTheBytesOfLiveBuffers) {
  const pjrt::LoadedExecutable program = pjrt::compile(client(), pjrt::kDouble);
  const int64_t alive = chaos().count("bytes_alive");
  chaos().configure("memory_limit=" + std::to_string(alive + 150));
  const std::vector<float> values(16, 1);  // 64 bytes
  {
    const pjrt::Buffer first = pjrt::put(client(), device(), values);
    EXPECT_EQ(device().memory_stats()->bytes_in_use, alive + 64);
    EXPECT_EQ(device().memory_stats()->bytes_limit, alive + 150);
    const pjrt::Buffer second = pjrt::put(client(), device(), values);
    EXPECT_EQ(code_of([&] { pjrt::put(client(), device(), values); }),
              ErrorCode::kResourceExhausted);
    std::vector<pjrt::Buffer> outputs;
    PJRT_Buffer* const argument = first.get();
    EXPECT_EQ(code_of([&] { program.execute({&argument, 1}, {}, outputs); }),
              ErrorCode::kResourceExhausted);
    EXPECT_EQ(pjrt::get(second), values);
  }
  EXPECT_EQ(chaos().count("bytes_alive"), alive);
  EXPECT_EQ(chaos().count("memory_refused"), 2);
  EXPECT_EQ(pjrt::get(pjrt::put(client(), device(), values)), values);
}

TEST_P(ChaosRestrictions, CountADonatedBufferOnce) {
  const pjrt::LoadedExecutable program = pjrt::compile(client(), pjrt::kDoubleInPlace);
  const int64_t alive = chaos().count("bytes_alive");
  const pjrt::Buffer input = pjrt::put(client(), device(), std::vector<float>(16, 1));
  std::vector<pjrt::Buffer> outputs;
  PJRT_Buffer* const argument = input.get();
  program.execute({&argument, 1}, {}, outputs);
  EXPECT_EQ(chaos().count("bytes_alive"), alive + 64);
  outputs[0].ready_event().await();
}

TEST_P(ChaosRestrictions, RenamePlatformAndMemoryKinds) {
  const std::string kind(device().default_memory().kind());
  chaos().configure("platform_name=gadget;memory_kinds=" + kind + ":hbm");
  EXPECT_EQ(device().default_memory().kind(), "hbm");
  const auto renamed = pjrt::Client::create(chaos().shared_plugin());
  EXPECT_EQ(renamed->platform_name(), "gadget");
}

}  // namespace
}  // namespace torch_pjrt
