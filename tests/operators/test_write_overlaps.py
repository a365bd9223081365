"""A target that shares a part of its elements with an input is refused where the CPU refuses it."""

import pytest
import torch

X = torch.arange(1.0, 7.0)


def index(x, *values):
    return torch.tensor(values or range(5), device=x.device)


REFUSED = {
    "add_": lambda x: x[1:].add_(x[:-1]),
    "lerp_": lambda x: x[1:].lerp_(x[:-1], 0.5),
    "addcmul_": lambda x: x[1:].addcmul_(x[:-1], x[:-1]),
    "clamp_": lambda x: x[1:].clamp_(min=x[:-1]),
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "copy_ of another order": lambda x: x[:4].view(2, 2).copy_(x[:4].view(2, 2).t()),
    "index_add_": lambda x: x[1:].index_add_(0, index(x), x[:-1]),
    "index_copy_": lambda x: x[1:].index_copy_(0, index(x), x[:-1]),
    "index_put_": lambda x: x[1:].index_put_((index(x),), x[:-1]),
    "scatter_": lambda x: x[1:].scatter_(0, index(x), x[:-1]),
    "scatter_add_": lambda x: x[1:].scatter_add_(0, index(x), x[:-1]),
    "put_": lambda x: x.put_(index(x, 0, 1), x[2:4]),
    "exp out": lambda x: torch.exp(x[:-1], out=x[1:]),
    "add out": lambda x: torch.add(x[:-1], 1, out=x[1:]),
    "where out": lambda x: torch.where(x[:-1] > 2, x[:-1], x[:-1], out=x[1:]),
    "cumsum out": lambda x: torch.cumsum(x[:-1], 0, out=x[1:]),
    "take out": lambda x: torch.take(x, index(x, 5, 4), out=x[:2]),
    "gather out": lambda x: torch.gather(x, 0, index(x, 5, 4), out=x[:2]),
    "cross out": lambda x: torch.linalg.cross(x[:3], x[3:], out=x[:3]),
    "cat out": lambda x: torch.cat([x[:2], x[4:]], out=x[:4]),
}

ALLOWED = {
    "add_ itself": lambda x: x.add_(x),
    "add_ beside": lambda x: x[3:].add_(x[:3]),
    "add_ between": lambda x: x[::2].add_(x[1::2]),
    "exp out itself": lambda x: torch.exp(x, out=x),
    "sort out itself": lambda x: torch.sort(x, out=(x, index(x, 0)[:0]))[0],
    "cumsum out itself": lambda x: torch.cumsum(x, 0, out=x),
    "copy_ itself": lambda x: x.copy_(x),
    "mul_ by an element": lambda x: x[1:].mul_(x[0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(RuntimeError, match="single memory location"):
        REFUSED[name](X.clone())
    x = X.to("xla")
    with pytest.raises(RuntimeError, match="single memory location"):
        REFUSED[name](x)
    assert x.cpu().equal(X)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name):
    x, y = X.clone(), X.to("xla")
    expected, actual = ALLOWED[name](x), ALLOWED[name](y)
    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(y.cpu(), x)


def test_a_negative_bound_is_refused():
    for device in ("cpu", "xla"):
        with pytest.raises(RuntimeError, match="lambda must be"):
            torch.nn.functional.softshrink(X.to(device), -1.0)
