#include "pjrt/foreign_function.h"

#include <exception>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/call.h"
#include "pjrt/extension.h"
#include "pjrt/foreign_function_abi.h"

namespace torch_pjrt::pjrt {
namespace {

constexpr int kMetadataExtension = 1, kExecuteStage = 3, kArray = 1, kBuffer = 1;

// XLA's number of each type (xla_data.proto).
constexpr std::pair<int, ElementType> kElementTypes[] = {
    {1, ElementType::kPred}, {2, ElementType::kS8},    {3, ElementType::kS16},
    {4, ElementType::kS32},  {5, ElementType::kS64},   {6, ElementType::kU8},
    {7, ElementType::kU16},  {8, ElementType::kU32},   {9, ElementType::kU64},
    {10, ElementType::kF16}, {11, ElementType::kF32},  {12, ElementType::kF64},
    {15, ElementType::kC64}, {16, ElementType::kBF16}, {18, ElementType::kC128}};
constexpr int kXlaS64 = 5;

ElementType element_type(int number) {
  for (const auto& [theirs, ours] : kElementTypes) {
    if (theirs == number) return ours;
  }
  throw std::invalid_argument("a buffer has an element type that is not known; got XLA's number " +
                              std::to_string(number));
}

std::vector<ForeignBuffer> buffers_of(const TorchPjrt_FfiBuffers& given) {
  std::vector<ForeignBuffer> all;
  for (int64_t i = 0; i < given.size; ++i) {
    if (given.kinds[i] != kBuffer) throw std::invalid_argument("an operand is no buffer");
    const auto& buffer = *static_cast<const TorchPjrt_FfiBuffer*>(given.buffers[i]);
    all.push_back({element_type(buffer.element_type),
                   buffer.data,
                   {buffer.dimensions, static_cast<size_t>(buffer.rank)}});
  }
  return all;
}

std::span<const int64_t> options_of(const TorchPjrt_FfiAttributes& given) {
  for (int64_t i = 0; i < given.size; ++i) {
    if (std::string_view(given.names[i]->data, given.names[i]->size) != "options") continue;
    const auto& array = *static_cast<const TorchPjrt_FfiArray*>(given.values[i]);
    if (given.kinds[i] != kArray || array.element_type != kXlaS64) {
      throw std::invalid_argument("`options` is no array of i64");
    }
    return {static_cast<const int64_t*>(array.data), array.size};
  }
  return {};
}

// Of the plugin's own version: of it, nothing is used that later ones changed.
bool answer_metadata(const TorchPjrt_FfiCallFrame& frame) noexcept {
  TorchPjrt_FfiExtension* extension = frame.base.extension_start;
  if (!extension || extension->type != kMetadataExtension) return false;
  auto& metadata = *reinterpret_cast<TorchPjrt_FfiMetadataExtension*>(extension)->metadata;
  metadata.version.major_version = frame.api->version.major_version;
  metadata.version.minor_version = frame.api->version.minor_version;
  metadata.traits = 0;
  return true;
}

void* error_of(const TorchPjrt_FfiApi& api, const char* message) noexcept {
  TorchPjrt_FfiErrorCreate_Args args{};
  args.base.struct_size = sizeof args;
  args.message = message;
  args.code = PJRT_Error_Code_INTERNAL;
  return api.error_create(&args);
}

const TorchPjrt_PjrtFfiExtension* extension_of(const Client& client) {
  return extension_with(client, PJRT_Extension_Type_FFI,
                        &TorchPjrt_PjrtFfiExtension::register_handler);
}

}  // namespace

void* run_foreign(TorchPjrt_FfiCallFrame* frame, ForeignFunction::Run run) noexcept {
  if (answer_metadata(*frame)) return nullptr;
  if (frame->stage != kExecuteStage) return nullptr;
  try {
    const std::vector<ForeignBuffer> arguments = buffers_of(frame->arguments);
    const std::vector<ForeignBuffer> results = buffers_of(frame->results);
    run({arguments, results, options_of(frame->attributes)});
    return nullptr;
  } catch (const std::exception& error) {
    return error_of(*frame->api, error.what());
  }
}

bool calls_host_functions(const Client& client) {
  return client.platform_name() == "cpu" && extension_of(client) != nullptr;
}

void provide(const Client& client, const ForeignFunction& function) {
  static std::mutex& mutex = *new std::mutex;
  static auto& provided = *new std::set<std::pair<const PJRT_Api*, std::string_view>>;
  std::lock_guard lock(mutex);
  if (provided.contains({client.api(), function.name})) return;
  const std::string asked = "register the function " + std::string(function.name);
  const TorchPjrt_PjrtFfiExtension* extension = extension_of(client);
  if (!extension) throw_unimplemented(client.api(), "the FFI extension", asked);
  constexpr std::string_view kPlatform = "Host";  // as XLA calls its CPU
  TorchPjrt_FfiRegisterHandler_Args args{};
  args.struct_size = sizeof args;
  args.target = function.name.data();
  args.target_size = function.name.size();
  args.handler = reinterpret_cast<void*>(function.handler);
  args.platform = kPlatform.data();
  args.platform_size = kPlatform.size();
  check(client.api(), extension->register_handler(&args), asked);
  provided.insert({client.api(), function.name});
}

}  // namespace torch_pjrt::pjrt
