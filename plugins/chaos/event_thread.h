#pragma once

#include <cstdint>
#include <functional>

namespace pjrt_chaos {

// Runs `work` on the chaos thread, after the delay and in the order that the options say;
// `sequence` tells in which order the pieces of work were made. Never waits.
void run_on_event_thread(uint64_t sequence, std::function<void()> work);

// Waits until all that was given so far has run; returns at once on the chaos thread itself.
void wait_for_event_thread();

}  // namespace pjrt_chaos
