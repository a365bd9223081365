"""torch.autocast("xla") changes the precision of the same operators as on cuda."""

import pytest
import torch
import torch.nn.functional as F

import torch_pjrt  # noqa: F401


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_matrix_products_run_in_the_lower_precision(dtype):
    layer = torch.nn.Linear(4, 5).to("xla")
    x = torch.randn(3, 4).to("xla")
    with torch.autocast("xla", dtype=dtype):
        y = layer(x)
        assert y.dtype == dtype
        assert F.conv2d(x.view(1, 1, 3, 4), x.view(1, 1, 3, 4)).dtype == dtype
        assert F.layer_norm(y, (5,)).dtype == torch.float32
        assert torch.softmax(y, 1).dtype == torch.float32
        assert torch.addcmul(y, y, torch.ones(1).to("xla")).dtype == torch.float32
    assert layer(x).dtype == torch.float32
    y.float().sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_can_be_switched_off_inside():
    x = torch.randn(2, 2).to("xla")
    with torch.autocast("xla", dtype=torch.bfloat16), torch.autocast("xla", enabled=False):
        assert (x @ x).dtype == torch.float32


def test_refuses_binary_cross_entropy():
    x = torch.rand(3).to("xla")
    lower = torch.autocast("xla", dtype=torch.bfloat16)
    with lower, pytest.raises(RuntimeError, match="with_logits"):
        F.binary_cross_entropy(x, x)
