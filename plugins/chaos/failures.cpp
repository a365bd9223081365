#include "failures.h"

#include <string>

#include "counts.h"
#include "errors.h"
#include "options.h"

namespace pjrt_chaos {

PJRT_Error* failure_of_call(Function function) {
  const int64_t call = add_call(function);
  const int64_t any_call = add_any_call();
  for (const FailureRule& rule : options().fail) {
    const bool any = rule.function == Function::kCount;
    if (!any && rule.function != function) continue;
    const int64_t number = any ? any_call : call;
    if (number < rule.first || number > rule.last) continue;
    add(Count::kFailures);
    return make_error(rule.code, "chaos: call " + std::to_string(call) + " of " +
                                     std::string(name(function)) + " fails, as asked");
  }
  return nullptr;
}

void count_call(Function function) noexcept { add_call(function); }

}  // namespace pjrt_chaos
