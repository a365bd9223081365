"""Derivatives in forward mode whose operators PyTorch has for the cpu alone."""

import pytest
import torch

from agreement import compare

F = torch.nn.functional
X, DX = torch.randn(2, 2, 4, 5)


@pytest.mark.parametrize("dim", [0, -2])
def test_gated_linear_unit(dim):
    def glu(x):
        return F.glu(x, dim)

    def of_gradient(x, dx):
        return torch.func.jvp(torch.func.grad(lambda y: glu(y).square().sum()), (x,), (dx,))

    compare(lambda x, dx: torch.func.jvp(glu, (x,), (dx,)), X, DX)
    # a zero that PyTorch keeps symbolic comes from the cpu
    compare(of_gradient, X, DX, fallback=["_efficientzerotensor"])
