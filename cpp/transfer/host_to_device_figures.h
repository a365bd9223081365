#pragma once

#include "transfer/transfer_figures.h"

namespace torch_pjrt::transfer {

// The paths from the host to a device, each with the reason why bytes were copied.
struct HostToDeviceFigures {
  TransferFigures all{"transfer.host_to_device"};
  TransferFigures small{"transfer.host_to_device.small"};
  TransferFigures flat{"transfer.host_to_device.flat"};
  TransferFigures packed{"transfer.host_to_device.packed"};
  TransferFigures batched{"transfer.host_to_device.batched"};
  TransferFigures chunked{"transfer.host_to_device.chunked"};
  TransferFigures staged{"transfer.host_to_device.staged"};
  TransferFigures held{"transfer.host_to_device.held"};
  TransferFigures cast{"transfer.host_to_device.cast"};
  TransferFigures block{"transfer.host_to_device.block"};
  TransferFigures adopted{"transfer.host_to_device.adopted"};

  static HostToDeviceFigures& instance() {
    static auto* const figures = new HostToDeviceFigures;
    return *figures;
  }
};

}  // namespace torch_pjrt::transfer
