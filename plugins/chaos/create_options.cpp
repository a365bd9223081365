#include "create_options.h"

#include <string>
#include <string_view>

#include "chaos.h"
#include "errors.h"

namespace pjrt_chaos {

WithoutOurOptions<PJRT_Client_Create_Args>::WithoutOurOptions(PJRT_Client_Create_Args& args)
    : args_(args), asked_(args.create_options), asked_count_(args.num_options) {
  for (size_t i = 0; i < asked_count_; ++i) {
    const PJRT_NamedValue& value = asked_[i];
    if (std::string_view(value.name, value.name_size) == "chaos_options") {
      ours_ = &value;
    } else {
      others_.push_back(value);
    }
  }
  if (ours_ == nullptr) return;
  args.create_options = others_.data();
  args.num_options = others_.size();
}

WithoutOurOptions<PJRT_Client_Create_Args>::~WithoutOurOptions() {
  args_.create_options = asked_;
  args_.num_options = asked_count_;
}

PJRT_Error* WithoutOurOptions<PJRT_Client_Create_Args>::apply() {
  if (ours_ == nullptr) return nullptr;
  if (ours_->type != PJRT_NamedValue_kString) {
    return make_error(PJRT_Error_Code_INVALID_ARGUMENT,
                      "chaos: the create option chaos_options is no string");
  }
  const std::string text(ours_->string_value, ours_->value_size);
  const char* const problem = pjrt_chaos_configure(text.c_str());
  return problem != nullptr ? make_error(PJRT_Error_Code_INVALID_ARGUMENT, problem) : nullptr;
}

}  // namespace pjrt_chaos
