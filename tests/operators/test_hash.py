"""hash_tensor against the CPU: the bits of every dtype, dimensions, and what is refused."""

import math

import pytest
import torch

from agreement import compare, compare_errors

DTYPES = ["float32", "float64", "bfloat16", "float16", "int8", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits(dtype):
    special = [math.nan, math.inf, -0.0, 1e-40, -3e-45, 6e-8, 1e-310, 2.5, -7.0, 0.0]
    if not getattr(torch, dtype).is_floating_point:
        special = [0, 1, 3, 127, 1, 0, 5, 9, 2, 2]
    x = torch.tensor(special, dtype=torch.float64).to(getattr(torch, dtype))
    compare(lambda x: [torch.hash_tensor(x[i]) for i in range(len(x))], x)
    compare(torch.hash_tensor, -x if dtype in ("int8", "int64") else x)


def test_dimensions():
    x = torch.randn(2, 3, 4).transpose(0, 2)
    compare(torch.hash_tensor, x, 1)
    compare(lambda x: torch.hash_tensor(x, (0, -1), keepdim=True), x)
    compare(torch.hash_tensor, x[:0], 1)


def test_refused():
    x = torch.randn(2, 0)
    for arguments in [(x,), (x, 1), (x, 2), (x, (0, 0))]:
        compare_errors(torch.hash_tensor, *arguments)
    compare_errors(torch.hash_tensor, torch.ones(2), mode=1)
    for dtype in (torch.uint16, torch.complex64):
        compare_errors(torch.hash_tensor, torch.ones(2, dtype=dtype))
