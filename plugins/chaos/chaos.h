// What a test calls in the chaos plugin beside the PJRT API: find these with dlsym in the loaded
// library. All may be called from any thread. docs/chaos.md explains the options and counts.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Replaces all options (but `plugin`, which stays) and starts the counts anew, so that "the third
// call" counts from here. Null, or why the text was refused; that text lives until this thread's
// next call. Options that change the function table (hide, last_function, hide_extensions,
// stream_extension) take effect at once, in the table that GetPjrtApi gave.
const char* pjrt_chaos_configure(const char* options);

// The count of that name, which may be a function's: its calls. -1 if there is none.
int64_t pjrt_chaos_count(const char* name);

// One line for each: the functions; the options as `name|default|meaning`; the counts as
// `name|meaning`. They live as long as the process.
const char* pjrt_chaos_functions(void);
const char* pjrt_chaos_options(void);
const char* pjrt_chaos_counts(void);

#ifdef __cplusplus
}
#endif
