#include "pjrt/compile_options.h"

#include "pjrt/proto_writer.h"

namespace torch_pjrt::pjrt {
namespace {

// Field numbers of openxla/xla, xla/pjrt/proto/compile_options.proto (CompileOptionsProto,
// ExecutableBuildOptionsProto, OptionOverrideProto) and xla/xla_data.proto (DeviceAssignmentProto).
namespace compile_field {
constexpr int kBuildOptions = 3;
constexpr int kPortable = 4;
constexpr int kOverrides = 7;
}  // namespace compile_field

namespace build_field {
constexpr int kDeviceOrdinal = 1;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kUseSpmd = 6;
constexpr int kDeviceAssignment = 9;
constexpr int kUseShardy = 19;
}  // namespace build_field

namespace assignment_field {
constexpr int kReplicas = 1;
constexpr int kComputations = 2;
constexpr int kComputationDevices = 3;
constexpr int kReplicaDeviceIds = 1;  // of a computation's devices
}  // namespace assignment_field

namespace override_field {
constexpr int kString = 1;
constexpr int kBool = 2;
constexpr int kInt = 3;
constexpr int kDouble = 4;
}  // namespace override_field

namespace map_field {
constexpr int kKey = 1;
constexpr int kValue = 2;
}  // namespace map_field

std::string assignment_proto(const std::vector<std::vector<int64_t>>& assignment) {
  ProtoWriter proto;
  proto.integer(assignment_field::kReplicas, static_cast<int64_t>(assignment.front().size()));
  proto.integer(assignment_field::kComputations, static_cast<int64_t>(assignment.size()));
  for (const auto& replicas : assignment) {
    ProtoWriter devices;
    for (const int64_t id : replicas) devices.integer(assignment_field::kReplicaDeviceIds, id);
    proto.bytes(assignment_field::kComputationDevices, devices.text());
  }
  return proto.text();
}

std::string override_proto(const CompileOptions::Override& value) {
  ProtoWriter proto;
  if (const auto* text = std::get_if<std::string>(&value)) {
    proto.bytes(override_field::kString, *text);
  } else if (const auto* boolean = std::get_if<bool>(&value)) {
    proto.integer(override_field::kBool, *boolean);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    proto.integer(override_field::kInt, *integer);
  } else {
    proto.real(override_field::kDouble, std::get<double>(value));
  }
  return proto.text();
}

}  // namespace

std::string CompileOptions::serialize() const {
  ProtoWriter build;
  // Always written: left out, proto3 reads it as ordinal 0.
  build.integer(build_field::kDeviceOrdinal, device_ordinal);
  build.integer(build_field::kNumReplicas, num_replicas);
  build.integer(build_field::kNumPartitions, num_partitions);
  if (use_spmd_partitioning) build.integer(build_field::kUseSpmd, 1);
  if (!device_assignment.empty()) {
    build.bytes(build_field::kDeviceAssignment, assignment_proto(device_assignment));
  }
  if (use_shardy_partitioner) build.integer(build_field::kUseShardy, 1);

  ProtoWriter proto;
  proto.bytes(compile_field::kBuildOptions, build.text());
  if (portable) proto.integer(compile_field::kPortable, 1);
  for (const auto& [key, value] : overrides) {
    ProtoWriter entry;
    entry.bytes(map_field::kKey, key);
    entry.bytes(map_field::kValue, override_proto(value));
    proto.bytes(compile_field::kOverrides, entry.text());
  }
  return proto.text();
}

}  // namespace torch_pjrt::pjrt
