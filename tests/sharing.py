"""What the zero-copy tests share: addresses and counters."""

import contextlib
import gc

import pytest
import torch

import torch_pjrt
from torch_pjrt import _C

# docs/zero_copy.md, "Older PyTorch", says what is different before.
since_2_13 = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="PyTorch tells only its own copy-on-write of a first write",
)
LARGE = 1 << 16  # elements, of which PyTorch shares the work among threads


def address(tensor: torch.Tensor) -> int:
    """Where a tensor's elements lie: on cpu without asking for a pointer that may write."""
    offset = tensor.storage_offset() * tensor.element_size()
    if tensor.device.type == "xla":
        return _C.buffer_pointer(tensor) + offset
    return torch._C._data_address(tensor) + offset


def count(name: str) -> int:
    return int(_C.metrics_snapshot().get(name, 0))


@contextlib.contextmanager
def counted(**expected: int):
    """Checks by how much counters grow; `a__b` names `a.b`."""
    names = {key: key.replace("__", ".") for key in expected}
    before = {key: count(name) for key, name in names.items()}
    yield
    grown = {key: count(name) - before[key] for key, name in names.items()}
    assert grown == expected


def live_aliases() -> int:
    gc.collect()
    torch_pjrt.sync()
    return count("export.live")
