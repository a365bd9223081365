#include "pjrt/buffer.h"

#include "base/blocking_region.h"
#include "base/inline_vector.h"
#include "base/metrics.h"
#include "pjrt/call.h"

namespace torch_pjrt::pjrt {
namespace {

base::Counter& live_buffers() {
  static base::Counter& figure = base::gauge("pjrt.live_buffers");
  return figure;
}

}  // namespace

Buffer::Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) noexcept : api_(api), buffer_(buffer) {
  if (buffer_ != nullptr) live_buffers().add(1);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    destroy();
    api_ = other.api_;
    buffer_ = std::exchange(other.buffer_, nullptr);
  }
  return *this;
}

void Buffer::destroy() noexcept {
  if (buffer_ == nullptr) return;
  TORCH_PJRT_ARGS(PJRT_Buffer_Destroy, args);
  args.buffer = std::exchange(buffer_, nullptr);
  TORCH_PJRT_CALL_IN_DESTRUCTOR(api_, PJRT_Buffer_Destroy, args, "destroy a buffer");
  live_buffers().add(-1);
}

ElementType Buffer::element_type() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_ElementType, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_ElementType, args, "read a buffer's element type");
  return static_cast<ElementType>(args.type);
}

std::span<const int64_t> Buffer::dimensions() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_Dimensions, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_Dimensions, args, "read a buffer's dimensions");
  return {args.dims, args.num_dims};
}

size_t Buffer::on_device_bytes() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_OnDeviceSizeInBytes, args, "read a buffer's size");
  return args.on_device_size_in_bytes;
}

Device Buffer::device() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_Device, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_Device, args, "find a buffer's device");
  return {api_, args.device};
}

Memory Buffer::memory() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_Memory, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_Memory, args, "find a buffer's memory");
  return {api_, args.memory};
}

bool Buffer::is_on_cpu() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_IsOnCpu, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_IsOnCpu, args, "ask whether a buffer is on the CPU");
  return args.is_on_cpu;
}

Event Buffer::ready_event() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_ReadyEvent, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_ReadyEvent, args, "get a buffer's ready event");
  return {api_, args.event};
}

bool Buffer::is_deleted() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_IsDeleted, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_IsDeleted, args, "ask whether a buffer is deleted");
  return args.is_deleted;
}

void Buffer::delete_now() {
  TORCH_PJRT_ARGS(PJRT_Buffer_Delete, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_Delete, args, "delete a buffer");
}

Event Buffer::copy_to_host(void* dst, size_t bytes, std::span<const int64_t> byte_strides) const {
  TORCH_PJRT_ARGS(PJRT_Buffer_ToHostBuffer, args);
  args.src = buffer_;
  args.dst = dst;
  args.dst_size = bytes;
  PJRT_Buffer_MemoryLayout layout{};
  base::InlineVector<int64_t, 8> minor_to_major;
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  if (byte_strides.empty()) {
    // Named, since without a layout the device's own comes out, and it may be another.
    const size_t rank = dimensions().size();
    for (size_t i = 0; i < rank; ++i) minor_to_major.push_back(static_cast<int64_t>(rank - 1 - i));
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = minor_to_major.data();
    layout.tiled.minor_to_major_size = minor_to_major.size();
  } else {
    layout.type = PJRT_Buffer_MemoryLayout_Type_Strides;
    layout.strides.struct_size = PJRT_Buffer_MemoryLayout_Strides_STRUCT_SIZE;
    layout.strides.byte_strides = byte_strides.data();
    layout.strides.num_byte_strides = byte_strides.size();
  }
  args.host_layout = &layout;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_ToHostBuffer, args, "copy a buffer to the host");
  return {api_, args.event};
}

Event Buffer::copy_raw_to_host(void* dst, size_t offset, size_t bytes) const {
  TORCH_PJRT_ARGS(PJRT_Buffer_CopyRawToHost, args);
  args.buffer = buffer_;
  args.dst = dst;
  args.offset = static_cast<int64_t>(offset);
  args.transfer_size = static_cast<int64_t>(bytes);
  TORCH_PJRT_CALL(api_, PJRT_Buffer_CopyRawToHost, args, "copy part of a buffer to the host");
  return {api_, args.event};
}

Buffer Buffer::copy_to_device(Device device) const {
  TORCH_PJRT_ARGS(PJRT_Buffer_CopyToDevice, args);
  args.buffer = buffer_;
  args.dst_device = device.get();
  TORCH_PJRT_CALL(api_, PJRT_Buffer_CopyToDevice, args, "copy a buffer to another device");
  return {api_, args.dst_buffer};
}

Buffer Buffer::copy_to_memory(Memory memory) const {
  TORCH_PJRT_ARGS(PJRT_Buffer_CopyToMemory, args);
  args.buffer = buffer_;
  args.dst_memory = memory.get();
  TORCH_PJRT_CALL(api_, PJRT_Buffer_CopyToMemory, args, "copy a buffer to another memory");
  return {api_, args.dst_buffer};
}

void* Buffer::device_pointer() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, args);
  args.buffer = buffer_;
  base::BlockingRegion region;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, args,
                  "find a buffer's device address");
  return args.device_memory_ptr;
}

uintptr_t Buffer::unsafe_pointer() const {
  TORCH_PJRT_ARGS(PJRT_Buffer_UnsafePointer, args);
  args.buffer = buffer_;
  base::BlockingRegion region;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_UnsafePointer, args, "find a buffer's address");
  return args.buffer_pointer;
}

void Buffer::add_external_reference() {
  TORCH_PJRT_ARGS(PJRT_Buffer_IncreaseExternalReferenceCount, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL(api_, PJRT_Buffer_IncreaseExternalReferenceCount, args,
                  "add an external reference to a buffer");
}

void Buffer::drop_external_reference() noexcept {
  TORCH_PJRT_ARGS(PJRT_Buffer_DecreaseExternalReferenceCount, args);
  args.buffer = buffer_;
  TORCH_PJRT_CALL_IN_DESTRUCTOR(api_, PJRT_Buffer_DecreaseExternalReferenceCount, args,
                                "drop an external reference to a buffer");
}

}  // namespace torch_pjrt::pjrt
