#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include <memory>
#include <optional>

#include "dlpack/exported_tensor.h"
#include "dlpack/imported_tensor.h"
#include "graph/executor.h"

namespace torch_pjrt::aten {

// The DLPack device in whose memory an xla tensor lies. Throws BufferError where there is none.
DLDevice dlpack_device(const at::Tensor& tensor);

struct DlpackExport {
  void* data = nullptr;
  DLDevice device{kDLCPU, 0};
  pjrt::ElementType type = pjrt::ElementType::kInvalid;
  c10::DimVector dimensions;
  c10::DimVector strides;
  bool is_read_only = false;
  bool is_copied = false;
  std::unique_ptr<transfer::Holder> holder;

  // Refers to this object.
  dlpack::ExportedArray array() const noexcept;
};

// An xla tensor's memory for others, with the tensor's own strides. Executes what is recorded, so
// that whoever writes the memory, in order, changes nothing that was recorded before. While the
// export lives, `.cpu()` and clones of the tensor copy.
//
// The host waits for the device (BlockingRegion) where the memory is its own. On an accelerator it
// does not: `stream`, as the array API has it, waits for the contents. Where programs under way
// still read the memory, the tensor takes another buffer, which is there when they are done: the
// same memory, given away by the one and taken by the other, unless somebody else has it, too. Only
// where that cannot be, since the memory is another library's or exported already, the host waits,
// counted as accelerator.host_waits. With `stream` -1 nothing is waited for.
//
// Where another tensor has the same buffer (a clone, a `.cpu()` that is still there), this one
// first gets a buffer of its own, on the device: counted as dlpack.unshared. With `copy` true the
// memory is a row-major copy that the consumer alone has; counted as dlpack.copied.asked.
// `device`: where the consumer wants it; BufferError if the tensor is not there.
DlpackExport export_by_dlpack(const at::Tensor& tensor, std::optional<DLDevice> device,
                              std::optional<bool> copy, std::optional<int64_t> stream);

// A tensor on `executor`'s device that shares the memory of another library's array, in host memory
// or on the accelerator in whose memory the device computes, or a copy: if
// `copy` is true, or where the memory cannot be shared and `copy` is not false (then BufferError).
// A pair of counters dlpack.copied.<reason> says why:
//   asked       copy=True
//   misaligned  the device needs 64 bytes of alignment
//   view        gaps of more than the elements themselves, or negative strides
//   device      the device does not compute in the array's memory
at::Tensor import_by_dlpack(dlpack::ImportedTensor source, graph::Executor& executor,
                            std::optional<bool> copy);

}  // namespace torch_pjrt::aten
