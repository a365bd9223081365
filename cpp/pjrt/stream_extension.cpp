#include "pjrt/stream_extension.h"

#include "pjrt/call.h"
#include "pjrt/extension.h"
#include "pjrt/stream_extension_abi.h"

namespace torch_pjrt::pjrt {

std::optional<intptr_t> stream_for_ready_events(const Client& client, Device device) {
  const auto* extension =
      extension_with(client, PJRT_Extension_Type_Stream, &TorchPjrt_StreamExtension::get_stream);
  if (!extension) return std::nullopt;
  TorchPjrt_StreamForReadyEvents_Args args{};
  args.struct_size = sizeof args;
  args.device = device.get();
  check(client.api(), extension->get_stream(&args), "ask a device for its stream");
  return args.stream;
}

bool wait_on_stream(const Client& client, const Buffer& buffer, intptr_t stream) {
  const auto* extension =
      extension_with(client, PJRT_Extension_Type_Stream, &TorchPjrt_StreamExtension::wait_stream);
  if (!extension) return false;
  TorchPjrt_WaitUntilReadyOnStream_Args args{};
  args.struct_size = sizeof args;
  args.stream = stream;
  args.buffer = buffer.get();
  check(client.api(), extension->wait_stream(&args), "wait for a buffer on a stream");
  return true;
}

}  // namespace torch_pjrt::pjrt
