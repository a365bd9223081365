#include "pjrt/compile_options.h"

#include <gtest/gtest.h>

#include "arrays.h"
#include "on_each_plugin.h"
#include "pjrt/proto_writer.h"
#include "programs.h"

namespace torch_pjrt::pjrt {
namespace {

TEST(ProtoWriter, WritesTheWireFormat) {
  ProtoWriter proto;
  proto.integer(1, 300);
  proto.bytes(2, "ab");
  proto.integer(19, 1);
  proto.real(4, 1.0);
  EXPECT_EQ(proto.text(), std::string("\x08\xac\x02"
                                      "\x12\x02"
                                      "ab"
                                      "\x98\x01\x01"
                                      "\x21\0\0\0\0\0\0\xf0\x3f",
                                      19));
  ProtoWriter negative;
  negative.integer(1, -1);
  EXPECT_EQ(negative.text(), "\x08" + std::string(9, '\xff') + "\x01");
}

class CompileOptionsOnPlugin : public OnEachPlugin {};

TEST_P(CompileOptionsOnPlugin, AreAcceptedWithEveryFieldSet) {
  CompileOptions options;
  options.device_ordinal = 0;
  options.use_spmd_partitioning = true;
  options.use_shardy_partitioner = true;
  options.device_assignment = {{device().id()}};
  options.overrides["xla_cpu_enable_fast_math"] = false;
  options.overrides["xla_backend_optimization_level"] = int64_t{1};
  const LoadedExecutable program = compile(client(), kDouble, options);
  std::vector<Buffer> outputs;
  const Buffer input = put(client(), device(), std::vector<float>(16, 4.f));
  PJRT_Buffer* const arguments[] = {input.get()};
  program.execute(arguments, {}, outputs);
  EXPECT_EQ(get(outputs.at(0)), std::vector<float>(16, 8.f));
}

TEST_P(CompileOptionsOnPlugin, TheDeviceAssignmentChoosesTheDevice) {
  const Client& two = client(2);
  const Device second = two.addressable_devices().at(1);
  CompileOptions options;
  options.device_assignment = {{second.id()}};
  const LoadedExecutable program = compile(two, kDouble, options);
  ASSERT_EQ(program.addressable_devices().size(), 1u);
  EXPECT_EQ(program.addressable_devices()[0], second);
}

TEST_P(CompileOptionsOnPlugin, PartitionsAndReplicasTakeSeveralDevices) {
  const Client& two = client(2);
  CompileOptions partitions;
  partitions.num_partitions = 2;
  partitions.use_spmd_partitioning = true;
  EXPECT_EQ(compile(two, kDouble, partitions).addressable_devices().size(), 2u);
  CompileOptions replicas;
  replicas.num_replicas = 2;
  EXPECT_EQ(compile(two, kDouble, replicas).addressable_devices().size(), 2u);
}

TEST_P(CompileOptionsOnPlugin, AnUnknownOverrideIsRefusedByName) {
  CompileOptions options;
  options.overrides["xla_no_such_flag"] = true;
  try {
    compile(client(), kDouble, options);
    FAIL() << "accepted xla_no_such_flag";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("xla_no_such_flag"), std::string::npos)
        << error.what();
  }
}

RUN_ON_EACH_PLUGIN(CompileOptionsOnPlugin);

}  // namespace
}  // namespace torch_pjrt::pjrt
