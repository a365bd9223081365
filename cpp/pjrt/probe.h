#pragma once

#include "base/metrics.h"
#include "pjrt/error.h"

namespace torch_pjrt::pjrt {

// Whether an error tells of the moment, so that the same request may succeed later: out of memory,
// unavailable, cancelled and their kin; not one that tells what a plugin lacks.
bool may_pass(ErrorCode code) noexcept;

// What is found out about a plugin once and remembered: what `attempt` returns, or false where it
// throws Error twice, since refusing is an answer and one failure is none. Throws the second error
// where it may pass: then nothing is known, and nothing must be remembered.
//
// Counter: pjrt.repeated_probes, of those that failed and then answered.
template <typename Attempt>
bool probe(Attempt attempt) {
  try {
    return attempt();
  } catch (const Error&) {  // asked again
  }
  try {
    const bool answer = attempt();
    base::counter("pjrt.repeated_probes").add();
    return answer;
  } catch (const Error& error) {
    if (may_pass(error.code())) throw;
    return false;
  }
}

}  // namespace torch_pjrt::pjrt
