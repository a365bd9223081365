"""Thousands of random layouts, dtypes and sizes go to the device and back as NumPy sees them.

The kernels alone are compared with a naive loop on 20,000 layouts in tests/cpp/transfer, and on as
many by tests/cpp/transfer/strided_copy_fuzzer.cpp.
"""

import random

import numpy as np
import pytest
import torch

from torch_pjrt.transfer import to_device, to_host

DTYPES = [torch.float32, torch.float64, torch.int64, torch.int16, torch.uint8, torch.bool]


def random_view(pick: random.Random, base: np.ndarray) -> tuple[np.ndarray, torch.Tensor]:
    """The same random view of a flat array: by NumPy and by PyTorch."""
    rank = pick.randint(0, 8)
    sizes, strides, reach = [], [], 0
    for _ in range(rank):
        size = pick.choice([0, 1, 1, 2, 3, 5, 7])
        stride = pick.choice([0, 1, 1, 2, 3, 5, 12, 40, 150])
        if reach + max(0, size - 1) * stride >= 2000:
            size = 1
        reach += max(0, size - 1) * stride
        sizes.append(size)
        strides.append(stride)
    offset = pick.randrange(base.size - reach)
    view = np.lib.stride_tricks.as_strided(
        base[offset:], sizes, [stride * base.itemsize for stride in strides]
    )
    return view, torch.from_numpy(base).as_strided(sizes, strides, offset)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_random_views_keep_their_values(dtype):
    pick = random.Random(str(dtype))
    numbers = torch.randint(-100, 100, (4096,), generator=torch.Generator().manual_seed(1))
    base = numbers.to(dtype).numpy()
    pairs = [random_view(pick, base) for _ in range(500)]
    devices = to_device([tensor for _, tensor in pairs])
    alone = [tensor.to("xla") for _, tensor in pairs[::5]]
    for (array, tensor), device, back in zip(pairs, devices, to_host(devices), strict=True):
        assert np.array_equal(back.numpy(), array), tensor.stride()
        assert back.numpy().dtype == array.dtype
        assert device.stride() == back.stride() == tensor.clone().stride()
    for (array, _), device in zip(pairs[::5], alone, strict=True):
        assert np.array_equal(device.cpu().numpy(), array)
    for (array, _), device in zip(pairs[::25], devices[::25], strict=True):
        target = torch.empty(array.shape + (2,), dtype=dtype)[..., 0]  # with gaps
        assert np.array_equal(target.copy_(device).numpy(), array)


def test_flipped_arrays_arrive_as_they_look():
    # PyTorch has no negative strides: what NumPy flips comes as a copy, or not at all.
    array = np.arange(12.0).reshape(3, 4)[::-1]
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(array)
    assert np.array_equal(torch.tensor(array.copy()).to("xla").cpu().numpy(), array)
