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
  dlpack::ExportedArray array;  // refers to the tensor's sizes, and to `strides`
  c10::DimVector strides;
  std::unique_ptr<transfer::Holder> holder;
};

// An xla tensor's memory for others, with the tensor's own strides. Executes what is recorded and
// waits for the device (BlockingRegion), so that whoever writes the memory changes nothing that
// was recorded before. While the export lives, `.cpu()` and clones of the tensor copy.
//
// Where another tensor has the same buffer (a clone, a `.cpu()` that is still there), this one
// first gets a buffer of its own, on the device: counted as dlpack.unshared. With `copy` true the
// memory is a row-major copy that the consumer alone has; counted as dlpack.copied.asked.
// `device`: where the consumer wants it; BufferError if the tensor is not there.
// `stream` -1: the consumer sees to the order, and nothing is waited for on an accelerator. Every
// other stream finds the memory ready, as the host has waited.
DlpackExport export_by_dlpack(const at::Tensor& tensor, std::optional<DLDevice> device,
                              std::optional<bool> copy, std::optional<int64_t> stream);

// What a producer is to be given as stream, so that import_by_dlpack finds its memory ready; empty
// where there is none.
std::optional<int64_t> dlpack_stream(const graph::Executor& executor);

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
