#pragma once

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// The function table of the chaos plugin; made, and the plugin to wrap loaded, at the first call.
const PJRT_Api* table();

// Makes the table anew, in its place, for other options.
void update_table();

}  // namespace pjrt_chaos
