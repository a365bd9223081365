#include "simulated_platform.h"

#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "errors.h"
#include "options.h"
#include "pjrt/stream_extension_abi.h"
#include "simulated_accelerator/abi.h"
#include "wrapped.h"

namespace pjrt_chaos {
namespace {

const SimulatedAccelerator* simulator = nullptr;  // set before the table is given out

struct ReleaseEvent {
  void operator()(SimulatedEvent* event) const { simulator->release_event(event); }
};
using EventPtr = std::shared_ptr<SimulatedEvent>;

EventPtr make_event() { return {simulator->make_event(), ReleaseEvent()}; }

// Buffers whose contents come on a stream.
struct Pending {
  std::mutex mutex;
  std::unordered_map<const PJRT_Buffer*, EventPtr> events;
};
Pending& pending() {
  static auto* const instance = new Pending;
  return *instance;
}

EventPtr pending_event(const PJRT_Buffer* buffer) {
  Pending& all = pending();
  const std::lock_guard lock(all.mutex);
  const auto found = all.events.find(buffer);
  return found != all.events.end() ? found->second : nullptr;
}

// A real platform would have its own stream wait; the one that is wrapped has none, so its caller
// does.
void wait_for_contents(const PJRT_Buffer* buffer) {
  if (const EventPtr event = pending_event(buffer)) simulator->synchronize(event.get());
}

SimulatedStream* ready_stream() {
  static auto* const stream = simulator->make_stream();
  return stream;
}

PJRT_Error* failure() {
  if (options().stream_extension != StreamExtension::kFailing) return nullptr;
  return make_error(PJRT_Error_Code_UNAVAILABLE, "chaos: the stream extension fails");
}

PJRT_Error* get_stream(TorchPjrt_StreamForReadyEvents_Args* args) {
  if (PJRT_Error* const error = failure()) return error;
  args->stream = reinterpret_cast<intptr_t>(ready_stream());
  return nullptr;
}

PJRT_Error* wait_stream(TorchPjrt_WaitUntilReadyOnStream_Args* args) {
  if (PJRT_Error* const error = failure()) return error;
  // As XLA's GPU plugins have it.
  CHAOS_ARGS(PJRT_Buffer_IsDeleted, deleted);
  deleted.buffer = args->buffer;
  if (const ErrorText error = ask(&PJRT_Api::PJRT_Buffer_IsDeleted, deleted)) {
    return make_error(error);
  }
  if (deleted.is_deleted) {
    return make_error(PJRT_Error_Code_INVALID_ARGUMENT,
                      "chaos: the buffer of a stream's wait is deleted or donated");
  }
  if (options().leave_out_wait_stream) return nullptr;
  auto* const stream = reinterpret_cast<SimulatedStream*>(args->stream);
  if (const EventPtr event = pending_event(args->buffer)) simulator->wait(stream, event.get());
  CHAOS_ARGS(PJRT_Buffer_ReadyEvent, ready);
  ready.buffer = args->buffer;
  if (const ErrorText error = ask(&PJRT_Api::PJRT_Buffer_ReadyEvent, ready)) {
    return make_error(error);
  }
  const EventPtr event = make_event();
  simulator->begin(event.get());
  simulator->wait(stream, event.get());
  CHAOS_ARGS(PJRT_Event_OnReady, on_ready);
  on_ready.event = ready.event;
  auto* const kept = new EventPtr(event);
  on_ready.user_arg = kept;
  on_ready.callback = [](PJRT_Error* error, void* argument) {
    take_error(error);
    const std::unique_ptr<EventPtr> owner(static_cast<EventPtr*>(argument));
    simulator->finish(owner->get());
  };
  ErrorText error = ask(&PJRT_Api::PJRT_Event_OnReady, on_ready);
  if (error) {
    simulator->finish(event.get());
    delete kept;
  }
  CHAOS_ARGS(PJRT_Event_Destroy, destroy);
  destroy.event = ready.event;
  ask(&PJRT_Api::PJRT_Event_Destroy, destroy);
  return make_error(error);
}

void* device_address(void* real) {
  return simulator->device_address(real, static_cast<int32_t>(options().simulated_device));
}

}  // namespace

std::string load_simulator(const std::string& path) {
  if (simulator != nullptr) return {};
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library != nullptr ? dlsym(library, "simulated_accelerator") : nullptr;
  if (symbol == nullptr) {
    const char* const reason = dlerror();
    return "load the simulated accelerator '" + path +
           "': " + (reason != nullptr ? reason : "it does not load");
  }
  const auto* const table = reinterpret_cast<const SimulatedAccelerator* (*)()>(symbol)();
  if (table->abi != SIMULATED_ACCELERATOR_ABI) {
    return "load the simulated accelerator '" + path + "': it has another ABI; build both anew";
  }
  simulator = table;
  return {};
}

const char* simulated_platform_name() noexcept {
  return simulator != nullptr ? simulator->platform_name : nullptr;
}

PJRT_Extension_Base* with_stream_extension(PJRT_Extension_Base* next) {
  if (simulator == nullptr) return next;
  static TorchPjrt_StreamExtension extension{};
  const StreamExtension kind = options().stream_extension;
  extension.base = {sizeof extension, PJRT_Extension_Type_Stream, next};
  if (kind == StreamExtension::kShort) {
    extension.base.struct_size = offsetof(TorchPjrt_StreamExtension, wait_stream);
  }
  extension.get_stream = kind == StreamExtension::kEmpty ? nullptr : &get_stream;
  extension.wait_stream = kind == StreamExtension::kEmpty ? nullptr : &wait_stream;
  return &extension.base;
}

// The caller's callback, for the wrapped plugin's.
struct SimulatedCall<PJRT_Client_CreateViewOfDeviceBuffer_Args>::OnDelete {
  void (*function)(void*, void*);
  void* pointer;
  void* argument;

  static void call(void*, void* self) {
    const std::unique_ptr<OnDelete> owner(static_cast<OnDelete*>(self));
    if (owner->function != nullptr) owner->function(owner->pointer, owner->argument);
  }
};

SimulatedCall<PJRT_Client_CreateViewOfDeviceBuffer_Args>::SimulatedCall(
    PJRT_Client_CreateViewOfDeviceBuffer_Args& args)
    : args_(args), asked_(args) {}

PJRT_Error* SimulatedCall<PJRT_Client_CreateViewOfDeviceBuffer_Args>::before() {
  if (simulator == nullptr) return nullptr;
  int32_t device = 0;
  void* const real = simulator->real_address(asked_.device_buffer_ptr, &device);
  if (real == nullptr || device != options().simulated_device) {
    return make_error(PJRT_Error_Code_INVALID_ARGUMENT,
                      "chaos: the memory of a view is not this device's");
  }
  // As XLA's GPU plugins have it.
  if (asked_.stream != 0 && asked_.stream != reinterpret_cast<intptr_t>(ready_stream())) {
    return make_error(PJRT_Error_Code_NOT_FOUND,
                      "chaos: the stream of a view is not the device's for ready events");
  }
  on_delete_ = new OnDelete{asked_.on_delete_callback, asked_.device_buffer_ptr,
                            asked_.on_delete_callback_arg};
  args_.device_buffer_ptr = real;
  args_.stream = 0;
  args_.on_delete_callback = &OnDelete::call;
  args_.on_delete_callback_arg = on_delete_;
  return nullptr;
}

void SimulatedCall<PJRT_Client_CreateViewOfDeviceBuffer_Args>::after() {
  if (simulator == nullptr) return;
  OnDelete* const owned = on_delete_;
  on_delete_ = nullptr;
  if (asked_.stream != 0 && !options().leave_out_view) {
    EventPtr event = make_event();
    simulator->record(event.get(), ready_stream());
    Pending& all = pending();
    const std::lock_guard lock(all.mutex);
    all.events[args_.buffer] = std::move(event);
  }
  if (options().leave_out_release) {
    const auto function = std::exchange(owned->function, nullptr);
    if (function != nullptr) function(owned->pointer, owned->argument);
  }
}

SimulatedCall<PJRT_Client_CreateViewOfDeviceBuffer_Args>::~SimulatedCall() {
  args_.device_buffer_ptr = asked_.device_buffer_ptr;
  args_.stream = asked_.stream;
  args_.on_delete_callback = asked_.on_delete_callback;
  args_.on_delete_callback_arg = asked_.on_delete_callback_arg;
  delete on_delete_;
}

PJRT_Error* SimulatedCall<PJRT_LoadedExecutable_Execute_Args>::before() {
  if (simulator == nullptr) return nullptr;
  for (size_t device = 0; device < args_.num_devices; ++device) {
    for (size_t i = 0; i < args_.num_args; ++i) wait_for_contents(args_.argument_lists[device][i]);
  }
  return nullptr;
}
PJRT_Error* SimulatedCall<PJRT_Buffer_ToHostBuffer_Args>::before() {
  if (simulator != nullptr) wait_for_contents(args_.src);
  return nullptr;
}
PJRT_Error* SimulatedCall<PJRT_Buffer_CopyRawToHost_Args>::before() {
  if (simulator != nullptr) wait_for_contents(args_.buffer);
  return nullptr;
}
PJRT_Error* SimulatedCall<PJRT_Buffer_CopyToDevice_Args>::before() {
  if (simulator != nullptr) wait_for_contents(args_.buffer);
  return nullptr;
}
PJRT_Error* SimulatedCall<PJRT_Buffer_CopyToMemory_Args>::before() {
  if (simulator != nullptr) wait_for_contents(args_.buffer);
  return nullptr;
}
PJRT_Error* SimulatedCall<PJRT_Buffer_Destroy_Args>::before() {
  if (simulator == nullptr) return nullptr;
  Pending& all = pending();
  const std::lock_guard lock(all.mutex);
  all.events.erase(args_.buffer);
  return nullptr;
}

void SimulatedCall<PJRT_Buffer_UnsafePointer_Args>::after() {
  if (simulator == nullptr) return;
  args_.buffer_pointer =
      reinterpret_cast<uintptr_t>(device_address(reinterpret_cast<void*>(args_.buffer_pointer)));
}
void SimulatedCall<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>::after() {
  if (simulator == nullptr) return;
  args_.device_memory_ptr = device_address(args_.device_memory_ptr);
}

Completion contents_of_stream(const PJRT_Buffer* buffer) {
  if (simulator == nullptr) return {};
  EventPtr event = pending_event(buffer);
  if (event == nullptr || simulator->is_done(event.get()) != 0) return {};
  return [event = std::move(event)] {
    simulator->synchronize(event.get());
    return ErrorText();
  };
}

}  // namespace pjrt_chaos
