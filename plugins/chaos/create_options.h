#pragma once

#include <vector>

#include "pjrt_c_api.h"

namespace pjrt_chaos {

// The create option `chaos_options` (a text as in PJRT_CHAOS_OPTIONS) is ours: while this lives the
// call's list lacks it.
template <typename Args>
struct WithoutOurOptions {
  explicit WithoutOurOptions(Args&) noexcept {}
  PJRT_Error* apply() { return nullptr; }
};
template <>
class WithoutOurOptions<PJRT_Client_Create_Args> {
 public:
  explicit WithoutOurOptions(PJRT_Client_Create_Args& args);
  ~WithoutOurOptions();
  WithoutOurOptions(const WithoutOurOptions&) = delete;
  WithoutOurOptions& operator=(const WithoutOurOptions&) = delete;

  // Puts our options into force; an error if they are wrong.
  PJRT_Error* apply();

 private:
  PJRT_Client_Create_Args& args_;
  const PJRT_NamedValue* asked_;
  size_t asked_count_;
  const PJRT_NamedValue* ours_ = nullptr;
  std::vector<PJRT_NamedValue> others_;
};

}  // namespace pjrt_chaos
