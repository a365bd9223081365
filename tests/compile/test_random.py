"""Random numbers inside compiled functions: they advance, and obey the seed."""

import pytest
import torch
import torch.nn.functional as F


def draw(x):
    return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(3, device=x.device)


@pytest.mark.parametrize("device, options", [("xla", {}), ("cpu", {"device": "xla"})])
def test_numbers_advance_and_repeat_with_the_seed(device, options):
    x = torch.ones(50, 3, device=device)
    compiled = torch.compile(draw, backend="pjrt", fullgraph=True, options=options)
    torch.manual_seed(3)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(compiled(x), first)
    assert torch.equal(compiled(x), second)
    torch.manual_seed(4)
    assert not torch.equal(compiled(x), first)


def test_the_same_numbers_as_without_torch_compile():
    x = torch.ones(50, 3, device="xla")
    torch.manual_seed(3)
    expected = draw(x)
    torch.manual_seed(3)
    actual = torch.compile(draw, backend="pjrt")(x)
    torch.testing.assert_close(actual.cpu(), expected.cpu())


@pytest.mark.parametrize("device, options", [("xla", {}), ("cpu", {"device": "xla"})])
def test_backward_uses_the_mask_of_forward(device, options):
    x = torch.ones(1000, device=device, requires_grad=True)
    compiled = torch.compile(
        lambda x: F.dropout(x.sin(), 0.5), backend="pjrt", fullgraph=True, options=options
    )
    for _ in range(2):
        x.grad = None
        y = compiled(x)
        y.sum().backward()
        assert torch.equal((y != 0).cpu(), (x.grad != 0).cpu())


def test_recomputation_uses_the_mask_of_forward():
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(1000, device="xla", requires_grad=True)

    def function(x):
        return checkpoint(lambda y: F.dropout(y.sin(), 0.5).exp(), x, use_reentrant=False)

    y = torch.compile(function, backend="pjrt")(x)
    y.sum().backward()
    assert torch.equal((y != 1).cpu(), (x.grad.abs() > 1).cpu())
