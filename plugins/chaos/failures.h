#pragma once

#include "functions.h"
#include "pjrt_c_api.h"

namespace pjrt_chaos {

// Counts a call. The error that the options ask it to fail with, or null.
PJRT_Error* failure_of_call(Function function);

// Counts a call of a function that cannot fail.
void count_call(Function function) noexcept;

}  // namespace pjrt_chaos
