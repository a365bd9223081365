// What a compiled program tells of itself, apart from running it.
#include <memory>

#include "pjrt/call.h"
#include "pjrt/executable.h"

namespace torch_pjrt::pjrt {

std::string LoadedExecutable::name() const {
  TORCH_PJRT_ARGS(PJRT_Executable_Name, args);
  args.executable = executable_;
  TORCH_PJRT_CALL(api_, PJRT_Executable_Name, args, "read a program's name");
  return {args.executable_name, args.executable_name_size};
}

std::string LoadedExecutable::fingerprint() const {
  if (!has_function(api_, &PJRT_Api::PJRT_Executable_Fingerprint)) return {};
  TORCH_PJRT_ARGS(PJRT_Executable_Fingerprint, args);
  args.executable = executable_;
  try {
    TORCH_PJRT_CALL(api_, PJRT_Executable_Fingerprint, args, "read a program's fingerprint");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnimplemented) return {};
    throw;
  }
  return {args.executable_fingerprint, args.executable_fingerprint_size};
}

std::string LoadedExecutable::serialize() const {
  TORCH_PJRT_ARGS(PJRT_Executable_Serialize, args);
  args.executable = executable_;
  TORCH_PJRT_CALL(api_, PJRT_Executable_Serialize, args, "serialize a program");
  const std::unique_ptr<PJRT_SerializedExecutable, void (*)(PJRT_SerializedExecutable*)> owner(
      args.serialized_executable, args.serialized_executable_deleter);
  return {args.serialized_bytes, args.serialized_bytes_size};
}

int64_t LoadedExecutable::generated_code_bytes() const {
  TORCH_PJRT_ARGS(PJRT_Executable_SizeOfGeneratedCodeInBytes, args);
  args.executable = executable_;
  TORCH_PJRT_CALL(api_, PJRT_Executable_SizeOfGeneratedCodeInBytes, args,
                  "read the size of a program's code");
  return args.size_in_bytes;
}

std::optional<CompiledMemoryStats> LoadedExecutable::memory_stats() const {
  if (!has_function(api_, &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats)) return std::nullopt;
  TORCH_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats, args);
  args.executable = executable_;
  try {
    TORCH_PJRT_CALL(api_, PJRT_Executable_GetCompiledMemoryStats, args,
                    "read what memory a program needs");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnimplemented) return std::nullopt;
    throw;
  }
  CompiledMemoryStats stats;
  stats.generated_code = args.generated_code_size_in_bytes;
  stats.arguments = args.argument_size_in_bytes;
  stats.outputs = args.output_size_in_bytes;
  stats.aliased = args.alias_size_in_bytes;
  stats.temporaries = args.temp_size_in_bytes;
  stats.peak = args.peak_memory_in_bytes;
  return stats;
}

Options LoadedExecutable::cost_analysis() const {
  if (!has_function(api_, &PJRT_Api::PJRT_Executable_GetCostAnalysis)) return {};
  TORCH_PJRT_ARGS(PJRT_Executable_GetCostAnalysis, args);
  args.executable = executable_;
  try {
    TORCH_PJRT_CALL(api_, PJRT_Executable_GetCostAnalysis, args, "read a program's costs");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnimplemented) return {};
    throw;
  }
  return from_named_values(args.properties, args.num_properties);
}

}  // namespace torch_pjrt::pjrt
