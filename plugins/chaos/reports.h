#pragma once

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// Puts other names into the answers of a call, where the options say so.
template <typename Args>
void rename(Args&) {}
void rename(PJRT_Client_PlatformName_Args& args);
void rename(PJRT_Memory_Kind_Args& args);
void rename(PJRT_Executable_OutputMemoryKinds_Args& args);

}  // namespace pjrt_chaos
