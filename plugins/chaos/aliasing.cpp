#include "aliasing.h"

#include <string>
#include <string_view>

#include "counts.h"
#include "errors.h"
#include "options.h"
#include "simulated_platform.h"

namespace pjrt_chaos {
namespace {

PJRT_Error* refuse(std::string_view function) {
  if (!options().refuse_aliasing) return nullptr;
  add(Count::kAliasesRefused);
  return make_error(PJRT_Error_Code_UNIMPLEMENTED,
                    "chaos: this device shares no memory; asked for by " + std::string(function));
}

}  // namespace

PJRT_Error* refuse_aliasing(const PJRT_Client_CreateViewOfDeviceBuffer_Args&) {
  return refuse("PJRT_Client_CreateViewOfDeviceBuffer");
}
PJRT_Error* refuse_aliasing(const PJRT_Buffer_UnsafePointer_Args&) {
  return refuse("PJRT_Buffer_UnsafePointer");
}
PJRT_Error* refuse_aliasing(const PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args&) {
  return refuse("PJRT_Buffer_OpaqueDeviceMemoryDataPointer");
}

CopyInstead<PJRT_Client_BufferFromHostBuffer_Args>::CopyInstead(
    PJRT_Client_BufferFromHostBuffer_Args& args) noexcept
    : args_(args), asked_(args.host_buffer_semantics) {
  const bool aliases = asked_ == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                       asked_ == PJRT_HostBufferSemantics_kMutableZeroCopy;
  // The host's memory is not a simulated accelerator's.
  const bool refuses = options().refuse_aliasing || simulated_platform_name() != nullptr;
  if (!aliases || !refuses) return;
  add(Count::kAliasesRefused);
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
}

void deny_aliasing(PJRT_Buffer_IsOnCpu_Args& args) noexcept {
  if (options().refuse_aliasing || simulated_platform_name() != nullptr) args.is_on_cpu = false;
}

}  // namespace pjrt_chaos
