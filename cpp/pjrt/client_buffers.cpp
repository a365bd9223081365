// The ways in which a client makes buffers.
#include "base/inline_vector.h"
#include "pjrt/call.h"
#include "pjrt/client.h"

namespace torch_pjrt::pjrt {
namespace {

static_assert(static_cast<int>(HostBufferSemantics::kImmutableOnlyDuringCall) ==
              PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
static_assert(static_cast<int>(HostBufferSemantics::kImmutableUntilTransferCompletes) ==
              PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes);
static_assert(static_cast<int>(HostBufferSemantics::kImmutableZeroCopy) ==
              PJRT_HostBufferSemantics_kImmutableZeroCopy);
static_assert(static_cast<int>(HostBufferSemantics::kMutableZeroCopy) ==
              PJRT_HostBufferSemantics_kMutableZeroCopy);

PJRT_Buffer_Type to_pjrt(ElementType type) noexcept { return static_cast<PJRT_Buffer_Type>(type); }

}  // namespace

HostTransfer Client::buffer_from_host(const HostArray& source) const {
  TORCH_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer, args);
  args.client = client_;
  args.data = source.data;
  args.type = to_pjrt(source.type);
  args.dims = source.dimensions.data();
  args.num_dims = source.dimensions.size();
  args.byte_strides = source.byte_strides.data();
  args.num_byte_strides = source.byte_strides.size();
  args.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(source.semantics);
  args.device = source.device.get();
  args.memory = source.memory.get();
  TORCH_PJRT_CALL(api(), PJRT_Client_BufferFromHostBuffer, args, "copy host data to a device");
  return {Buffer(api(), args.buffer), Event(api(), args.done_with_host_buffer)};
}

Buffer Client::create_uninitialized(const ArraySpec& spec, Device device, Memory memory) const {
  TORCH_PJRT_ARGS(PJRT_Client_CreateUninitializedBuffer, args);
  args.client = client_;
  args.shape_dims = spec.dimensions.data();
  args.shape_num_dims = spec.dimensions.size();
  args.shape_element_type = to_pjrt(spec.type);
  args.device = device.get();
  args.memory = memory.get();
  TORCH_PJRT_CALL(api(), PJRT_Client_CreateUninitializedBuffer, args,
                  "allocate a buffer on a device");
  return {api(), args.buffer};
}

Buffer Client::create_view(void* pointer, const ArraySpec& spec, Device device,
                           void (*on_delete)(void* pointer, void* argument), void* argument,
                           intptr_t stream) const {
  TORCH_PJRT_ARGS(PJRT_Client_CreateViewOfDeviceBuffer, args);
  args.client = client_;
  args.device_buffer_ptr = pointer;
  args.dims = spec.dimensions.data();
  args.num_dims = spec.dimensions.size();
  args.element_type = to_pjrt(spec.type);
  args.device = device.get();
  // Never null, although the C API allows it: XLA CPU (API 0.106) ends the process then.
  args.on_delete_callback = on_delete != nullptr ? on_delete : [](void*, void*) {};
  args.on_delete_callback_arg = argument;
  args.stream = stream;
  TORCH_PJRT_CALL(api(), PJRT_Client_CreateViewOfDeviceBuffer, args, "adopt device memory");
  return {api(), args.buffer};
}

AsyncTransfer Client::create_async_transfer(std::span<const ArraySpec> specs, Memory memory) const {
  base::InlineVector<PJRT_ShapeSpec, 8> shapes;
  for (const ArraySpec& spec : specs) {
    PJRT_ShapeSpec shape{};
    shape.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
    shape.dims = spec.dimensions.data();
    shape.num_dims = spec.dimensions.size();
    shape.element_type = to_pjrt(spec.type);
    shapes.push_back(shape);
  }
  TORCH_PJRT_ARGS(PJRT_Client_CreateBuffersForAsyncHostToDevice, args);
  args.client = client_;
  args.shape_specs = shapes.data();
  args.num_shape_specs = shapes.size();
  args.memory = memory.get();
  TORCH_PJRT_CALL(api(), PJRT_Client_CreateBuffersForAsyncHostToDevice, args,
                  "start an asynchronous transfer");
  return {api(), args.transfer_manager};
}

}  // namespace torch_pjrt::pjrt
