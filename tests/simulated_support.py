"""The simulated accelerator for Python tests: PyTorch's device "simulated", and its switches."""

import atexit
import ctypes
import os
import types
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
FOLDER = Path(
    os.environ.get("SIMULATED_ACCELERATOR_FOLDER", ROOT / "build/plugins/simulated_accelerator")
)
RUNTIME = FOLDER / "libsimulated_accelerator.so"


class Simulator:
    """The simulator's switches (abi.h)."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(RUNTIME))

    def delay(self, milliseconds: int) -> None:
        """Work on the device's streams begins this late."""
        self._library.simulated_accelerator_set_delay(ctypes.c_int64(milliseconds))

    def leave_out(self, waits: str) -> None:
        """Leaves out the waits of a "stream" or the "host" for events; "": none."""
        self._library.simulated_accelerator_leave_out(waits.encode())


def load() -> Simulator:
    """Makes the device known to PyTorch. To be called before the first backward pass."""
    torch.ops.load_library(FOLDER / "simulated_torch_device.so")
    torch.utils.rename_privateuse1_backend("simulated")
    module = types.ModuleType("torch.simulated")
    module.is_available = lambda: True
    module.device_count = lambda: 2
    module.current_device = lambda: torch.accelerator.current_device_index()
    module.manual_seed_all = lambda seed: None
    module._is_in_bad_fork = lambda: False
    torch._register_device_module("simulated", module)
    torch.utils.generate_methods_for_privateuse1_backend()
    atexit.register(torch.accelerator.synchronize)
    return Simulator()
