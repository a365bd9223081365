"""Fourier transforms equal the cpu's in every normalisation."""

import pytest
import torch

from agreement import compare


@pytest.mark.parametrize("norm", ["forward", "ortho", "backward"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_transforms(norm, dtype):
    x = torch.randn(3, 4, 5, dtype=dtype)
    z = torch.complex(x, torch.randn(3, 4, 5, dtype=dtype))
    modes = {"backward": 0, "ortho": 1, "forward": 2}
    compare(lambda z: torch._fft_c2c(z, [1], modes[norm], True).contiguous(), z, tolerance=1e-4)
    compare(lambda z: torch._fft_c2c(z, [0, 2], modes[norm], False).contiguous(), z, tolerance=1e-4)
    compare(lambda x: torch._fft_r2c(x, [2], modes[norm], True).contiguous(), x, tolerance=1e-4)
    compare(lambda x: torch._fft_r2c(x, [2], modes[norm], False).contiguous(), x, tolerance=1e-4)
    for length in (8, 9):
        compare(
            lambda z, n=length: torch._fft_c2r(z, [2], modes[norm], n).contiguous(),
            z,
            tolerance=1e-4,
        )


def test_functions_of_torch_fft():
    compare(
        lambda x: torch.fft.irfft2(torch.fft.rfft2(x)),
        torch.randn(4, 6),
        tolerance=1e-4,
    )


def test_gradient():
    x = torch.randn(3, 8).requires_grad_()
    compare(torch.fft.rfft, x, backward=True, tolerance=1e-3)
