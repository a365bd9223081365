// A simulated asynchronous accelerator, for tests on machines without one. What its two sides
// share: a PyTorch device (torch_device.cpp) and a platform of the chaos plugin (option
// `simulates`). Both reach it through this table alone, which the library
// libsimulated_accelerator.so gives.
//
// Its memory is memory of the process under other addresses: the host faults where it touches one
// (a bit that no mapped address has is set), and only work on a stream knows the real ones. Its
// streams run what they are given late, each on a thread of its own. All functions may be called
// from any thread, and none waits but those that say so.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMULATED_ACCELERATOR_ABI 1

typedef struct SimulatedStream SimulatedStream;
typedef struct SimulatedEvent SimulatedEvent;

typedef struct SimulatedAccelerator {
  int32_t abi;
  int32_t device_count;
  const char* platform_name;

  // The address by which device `device` knows this memory, and back: null where an address is no
  // device's; `device` may be null.
  void* (*device_address)(void* real, int32_t device);
  void* (*real_address)(void* device_address, int32_t* device);

  // Streams live as long as the process. Work runs in the order in which it came.
  SimulatedStream* (*make_stream)(void);
  void (*enqueue)(SimulatedStream* stream, void (*work)(void* argument), void* argument);

  // A new event is done. `record` makes it not done until the stream has come to this point;
  // `begin` and `finish` do the same by hand. Work that is given to a stream after `wait` runs when
  // the event, as it is recorded now, is done.
  SimulatedEvent* (*make_event)(void);
  void (*release_event)(SimulatedEvent* event);
  void (*record)(SimulatedEvent* event, SimulatedStream* stream);
  void (*begin)(SimulatedEvent* event);
  void (*finish)(SimulatedEvent* event);
  void (*wait)(SimulatedStream* stream, SimulatedEvent* event);
  int32_t (*is_done)(SimulatedEvent* event);
  void (*synchronize)(SimulatedEvent* event);  // waits
} SimulatedAccelerator;

const SimulatedAccelerator* simulated_accelerator(void);

// For tests. Work runs this many milliseconds after it was given to a stream, at the earliest.
void simulated_accelerator_set_delay(int64_t milliseconds);
// Leaves out a kind of wait from now on, to show that a test notices: "stream" (a stream's for an
// event), "host" (the host's for an event, which counts as done) or "" (none).
void simulated_accelerator_leave_out(const char* waits);

#ifdef __cplusplus
}
#endif
