#include "pjrt/executable.h"

#include "base/blocking_region.h"
#include "base/inline_vector.h"
#include "pjrt/call.h"

namespace torch_pjrt::pjrt {

LoadedExecutable::LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* executable)
    : api_(api), loaded_(executable) {
  try {
    TORCH_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable, args);
    args.loaded_executable = loaded_;
    TORCH_PJRT_CALL(api_, PJRT_LoadedExecutable_GetExecutable, args, "describe a program");
    executable_ = args.executable;
    TORCH_PJRT_ARGS(PJRT_Executable_NumOutputs, outputs);
    outputs.executable = executable_;
    TORCH_PJRT_CALL(api_, PJRT_Executable_NumOutputs, outputs, "count a program's outputs");
    num_outputs_ = outputs.num_outputs;
  } catch (...) {
    destroy();
    throw;
  }
}

LoadedExecutable::LoadedExecutable(LoadedExecutable&& other) noexcept
    : api_(other.api_),
      loaded_(std::exchange(other.loaded_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)),
      num_outputs_(std::exchange(other.num_outputs_, 0)) {}

LoadedExecutable& LoadedExecutable::operator=(LoadedExecutable&& other) noexcept {
  if (this != &other) {
    destroy();
    api_ = other.api_;
    loaded_ = std::exchange(other.loaded_, nullptr);
    executable_ = std::exchange(other.executable_, nullptr);
    num_outputs_ = std::exchange(other.num_outputs_, 0);
  }
  return *this;
}

void LoadedExecutable::destroy() noexcept {
  if (executable_ != nullptr) {
    TORCH_PJRT_ARGS(PJRT_Executable_Destroy, args);
    args.executable = std::exchange(executable_, nullptr);
    TORCH_PJRT_CALL_IN_DESTRUCTOR(api_, PJRT_Executable_Destroy, args, "destroy a program");
  }
  if (loaded_ != nullptr) {
    TORCH_PJRT_ARGS(PJRT_LoadedExecutable_Destroy, args);
    args.executable = std::exchange(loaded_, nullptr);
    TORCH_PJRT_CALL_IN_DESTRUCTOR(api_, PJRT_LoadedExecutable_Destroy, args,
                                  "destroy a loaded program");
  }
}

void LoadedExecutable::execute(std::span<PJRT_Buffer* const> arguments,
                               const ExecuteOptions& options, std::vector<Buffer>& outputs,
                               Event* complete) const {
  PJRT_ExecuteOptions execute_options{};
  execute_options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  execute_options.launch_id = options.launch_id;
  execute_options.non_donatable_input_indices = options.non_donatable.data();
  execute_options.num_non_donatable_input_indices = options.non_donatable.size();
  execute_options.call_location = options.call_location;

  base::InlineVector<PJRT_Buffer*, 32> results(num_outputs_, nullptr);
  PJRT_Buffer* const* const argument_list = arguments.data();
  PJRT_Buffer** const result_list = results.data();
  PJRT_Event* event = nullptr;

  TORCH_PJRT_ARGS(PJRT_LoadedExecutable_Execute, args);
  args.executable = loaded_;
  args.options = &execute_options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &result_list;
  args.device_complete_events = complete != nullptr ? &event : nullptr;
  args.execute_device = options.device.get();

  outputs.clear();
  outputs.reserve(num_outputs_);  // before the launch: afterwards nothing may throw
  std::optional<base::BlockingRegion> region;
  if (options.may_block) region.emplace();
  TORCH_PJRT_CALL(api_, PJRT_LoadedExecutable_Execute, args, "execute a program");
  for (PJRT_Buffer* const result : results) outputs.emplace_back(api_, result);
  if (complete != nullptr) *complete = Event(api_, event);
}

std::vector<ElementType> LoadedExecutable::output_types() const {
  TORCH_PJRT_ARGS(PJRT_Executable_OutputElementTypes, args);
  args.executable = executable_;
  TORCH_PJRT_CALL(api_, PJRT_Executable_OutputElementTypes, args, "read a program's output types");
  std::vector<ElementType> types;
  for (size_t i = 0; i < args.num_output_types; ++i) {
    types.push_back(static_cast<ElementType>(args.output_types[i]));
  }
  return types;
}

std::vector<std::vector<int64_t>> LoadedExecutable::output_dimensions() const {
  TORCH_PJRT_ARGS(PJRT_Executable_OutputDimensions, args);
  args.executable = executable_;
  TORCH_PJRT_CALL(api_, PJRT_Executable_OutputDimensions, args,
                  "read the dimensions of a program's outputs");
  std::vector<std::vector<int64_t>> dimensions;
  const int64_t* next = args.dims;  // all outputs' dimensions, one after the other
  for (size_t i = 0; i < args.num_outputs; ++i) {
    dimensions.emplace_back(next, next + args.dim_sizes[i]);
    next += args.dim_sizes[i];
  }
  return dimensions;
}

std::vector<Device> LoadedExecutable::addressable_devices() const {
  TORCH_PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices, args);
  args.executable = loaded_;
  TORCH_PJRT_CALL(api_, PJRT_LoadedExecutable_AddressableDevices, args, "list a program's devices");
  std::vector<Device> devices;
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    devices.emplace_back(api_, args.addressable_devices[i]);
  }
  return devices;
}

bool LoadedExecutable::is_deleted() const {
  TORCH_PJRT_ARGS(PJRT_LoadedExecutable_IsDeleted, args);
  args.executable = loaded_;
  TORCH_PJRT_CALL(api_, PJRT_LoadedExecutable_IsDeleted, args, "ask whether a program is deleted");
  return args.is_deleted;
}

}  // namespace torch_pjrt::pjrt
