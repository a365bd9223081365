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
    compare(of_gradient, X, DX)


def test_zeros_that_pytorch_keeps_symbolic():
    def views_and_sums(x):
        zero = torch._efficientzerotensor(x.shape, dtype=x.dtype, device=x.device)
        assert zero._is_zerotensor() and (zero * x)._is_zerotensor() and zero[0].mT._is_zerotensor()
        return zero + x, zero[0].mT.clone(), zero.to(torch.int64), zero @ x.mT, zero.expm1()

    compare(views_and_sums, X)
    with pytest.raises(RuntimeError, match="immutable"):
        torch._efficientzerotensor((2,), device="xla").add_(1)
    empty = torch._efficientzerotensor((0, 3), dtype=torch.bfloat16, device="xla")
    assert empty.shape == (0, 3) and empty.dtype == torch.bfloat16
