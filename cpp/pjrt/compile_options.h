#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace torch_pjrt::pjrt {

// What a program is compiled for. `serialize` gives the bytes of XLA's CompileOptionsProto, which
// every plugin takes.
struct CompileOptions {
  // A debug option or flag of the compiler by name, such as "xla_cpu_use_thunk_runtime".
  using Override = std::variant<std::string, bool, int64_t, double>;

  int64_t device_ordinal = -1;  // -1: the plugin chooses
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  bool use_spmd_partitioning = false;
  bool use_shardy_partitioner = false;
  // device_assignment[partition][replica] is a device id; empty: the plugin chooses.
  std::vector<std::vector<int64_t>> device_assignment;
  // The program may run on any one device, named at each execution. Not with a device assignment.
  bool portable = false;
  std::map<std::string, Override> overrides;

  std::string serialize() const;
};

}  // namespace torch_pjrt::pjrt
