#pragma once

#include <string_view>

#include "pjrt/options.h"

namespace torch_pjrt::pjrt {

// What Client::create checks itself, since some plugins do not: XLA's CPU plugins up to API 0.106
// ignore an option that they do not know, and a device count below 1 or of another kind ends the
// process. Both throw Error(kInvalidArgument).

// Before the client exists.
void check_create_options(const Options& options, std::string_view what_was_asked);

// Refuses names that such a plugin would have ignored.
void check_ignored_options(const Options& options, std::string_view platform_name,
                           int api_minor_version, std::string_view what_was_asked);

}  // namespace torch_pjrt::pjrt
