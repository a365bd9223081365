#include "pjrt/async_transfer.h"

#include "pjrt/call.h"

namespace torch_pjrt::pjrt {

AsyncTransfer& AsyncTransfer::operator=(AsyncTransfer&& other) noexcept {
  if (this != &other) {
    destroy();
    api_ = other.api_;
    manager_ = std::exchange(other.manager_, nullptr);
  }
  return *this;
}

void AsyncTransfer::destroy() noexcept {
  if (manager_ == nullptr) return;
  TORCH_PJRT_ARGS(PJRT_AsyncHostToDeviceTransferManager_Destroy, args);
  args.transfer_manager = std::exchange(manager_, nullptr);
  TORCH_PJRT_CALL_IN_DESTRUCTOR(api_, PJRT_AsyncHostToDeviceTransferManager_Destroy, args,
                                "destroy a transfer manager");
}

size_t AsyncTransfer::buffer_count() const {
  TORCH_PJRT_ARGS(PJRT_AsyncHostToDeviceTransferManager_BufferCount, args);
  args.transfer_manager = manager_;
  TORCH_PJRT_CALL(api_, PJRT_AsyncHostToDeviceTransferManager_BufferCount, args,
                  "count a transfer's buffers");
  return args.buffer_count;
}

size_t AsyncTransfer::buffer_bytes(int index) const {
  TORCH_PJRT_ARGS(PJRT_AsyncHostToDeviceTransferManager_BufferSize, args);
  args.transfer_manager = manager_;
  args.buffer_index = index;
  TORCH_PJRT_CALL(api_, PJRT_AsyncHostToDeviceTransferManager_BufferSize, args,
                  "read the size of a transfer's buffer");
  return args.buffer_size;
}

Buffer AsyncTransfer::retrieve(int index) {
  TORCH_PJRT_ARGS(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, args);
  args.transfer_manager = manager_;
  args.buffer_index = index;
  TORCH_PJRT_CALL(api_, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, args,
                  "take a buffer out of a transfer");
  return {api_, args.buffer_out};
}

Event AsyncTransfer::transfer(int index, const void* data, size_t offset, size_t bytes,
                              bool is_last) {
  TORCH_PJRT_ARGS(PJRT_AsyncHostToDeviceTransferManager_TransferData, args);
  args.transfer_manager = manager_;
  args.buffer_index = index;
  args.data = data;
  args.offset = static_cast<int64_t>(offset);
  args.transfer_size = static_cast<int64_t>(bytes);
  args.is_last_transfer = is_last;
  TORCH_PJRT_CALL(api_, PJRT_AsyncHostToDeviceTransferManager_TransferData, args,
                  "transfer a piece of a buffer");
  return {api_, args.done_with_h2d_transfer};
}

void AsyncTransfer::set_error(int index, ErrorCode code, std::string_view message) {
  TORCH_PJRT_ARGS(PJRT_AsyncHostToDeviceTransferManager_SetBufferError, args);
  args.transfer_manager = manager_;
  args.buffer_index = index;
  args.error_code = static_cast<PJRT_Error_Code>(code);
  args.error_message = message.data();
  args.error_message_size = message.size();
  TORCH_PJRT_CALL(api_, PJRT_AsyncHostToDeviceTransferManager_SetBufferError, args,
                  "give a transfer's buffer an error");
}

}  // namespace torch_pjrt::pjrt
