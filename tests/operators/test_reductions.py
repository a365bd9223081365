"""Reductions, sorting and losses give what PyTorch gives on the cpu, without a fallback."""

import math

import pytest
import torch
import torch.nn.functional as F

from agreement import compare, compare_with_errors


def check(function, *inputs):
    """Errors must be the cpu's, too."""
    coarse = any(x.dtype == torch.bfloat16 for x in inputs)
    compare_with_errors(function, *inputs, tolerance=2e-2 if coarse else None)


REDUCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(0), x.sum((0, 2), keepdim=True)),
    "sum_dtype": lambda x: x.sum(1, dtype=torch.float64),
    "mean": lambda x: (x.mean(), x.mean(-1, keepdim=True)),
    "prod": lambda x: (x.prod(), x.prod(1)),
    "any": lambda x: (x.any(), x.any(1), (x > 1).all(), x.all(2, keepdim=True)),
    "amax": lambda x: (x.amax(), x.amin((0, 1)), x.max(), x.min()),
    "max": lambda x: (*x.max(1), *x.min(2, keepdim=True)),
    "argmax": lambda x: (x.argmax(), x.argmin(0), x.argmax(1, keepdim=True)),
    "var": lambda x: (x.var(), x.std(1), *torch.var_mean(x, 2, correction=0)),
    "norm": lambda x: (x.norm(), x.norm(1, dim=1), x.norm(math.inf), x.norm(3, dim=(0, 1))),
    "logsumexp": lambda x: x.logsumexp(1),
    "nansum": lambda x: (x.nansum(), x.count_nonzero(0)),
    "cumsum": lambda x: (x.cumsum(0), x.cumprod(2)),
    "cummax": lambda x: (*x.cummax(1), *x.cummin(2)),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "softmax": lambda x: (x.softmax(-1), x.log_softmax(0)),
    "sort": lambda x: (
        *x.sort(dim=1, stable=True),
        *x.sort(dim=-1, descending=True, stable=True),
    ),
    "topk": lambda x: (x.topk(2, 2)[0], x.topk(1, 0, largest=False)[0]),
    "kthvalue": lambda x: x.kthvalue(2, 2)[0],
    "median": lambda x: (x.median(), x.median(1)[0], x.nanmedian(2)[0]),
    "mode": lambda x: x.mode(1)[0],
}


def sample(dtype, shape=(3, 4, 5)):
    torch.manual_seed(0)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    return (torch.randn(shape) * 3).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name, dtype):
    check(REDUCTIONS[name], sample(dtype))


@pytest.mark.parametrize("name", ["amax", "max", "argmax", "cummax", "sort", "median", "topk"])
def test_nan_counts_as_the_greatest(name):
    x = sample(torch.float32)
    x[1, 2, 3] = x[0, 1, 2] = x[0, 1, 4] = math.nan
    check(REDUCTIONS[name], x)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "prod", "any", "amax", "max", "argmax", "sort", "cumsum", "softmax"]
)
def test_empty(name):
    check(REDUCTIONS[name], torch.empty(3, 0, 5))


@pytest.mark.parametrize(
    "function",
    [
        torch.sum,
        torch.mean,
        torch.max,
        lambda x: x.max(0),
        lambda x: x.sort(0),
        torch.argmax,
        lambda x: x.cumsum(0),
        lambda x: x.softmax(0),
        lambda x: x.topk(1),
    ],
)
def test_number(function):
    check(function, torch.tensor(2.5))


def test_equal():
    x = torch.arange(5).to("xla")
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, x + 1)
    assert not torch.equal(x, x[1:])


def test_median_of_nan():
    check(lambda x: (x.median(0), x.nanmedian(0))[0], torch.tensor([1.0, math.nan, 0.0, 2.0]))
    check(lambda x: x.nanmedian(0), torch.tensor([1.0, math.nan, 0.0, 2.0]))


LOSSES = {
    "cross_entropy": lambda x, t, r: F.cross_entropy(x, t["class"], reduction=r),
    "weighted": lambda x, t, r: F.cross_entropy(
        x, t["class"], weight=t["weight"], ignore_index=1, reduction=r
    ),
    "nll": lambda x, t, r: F.nll_loss(x, t["class"], weight=t["weight"], reduction=r),
    "mse": lambda x, t, r: F.mse_loss(x, t["real"], reduction=r),
    "l1": lambda x, t, r: F.l1_loss(x, t["real"], reduction=r),
    "smooth_l1": lambda x, t, r: F.smooth_l1_loss(x, t["real"], reduction=r, beta=0.7),
    "huber": lambda x, t, r: F.huber_loss(x, t["real"], reduction=r, delta=0.7),
    "bce": lambda x, t, r: F.binary_cross_entropy(x.sigmoid(), t["unit"], reduction=r),
    "bce_logits": lambda x, t, r: F.binary_cross_entropy_with_logits(x, t["unit"], reduction=r),
    "kl_div": lambda x, t, r: F.kl_div(x.log_softmax(1), t["unit"], reduction=r),
    "soft_margin": lambda x, t, r: F.soft_margin_loss(x, t["real"].sign(), reduction=r),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient(name, reduction):
    torch.manual_seed(0)
    x = torch.randn(6, 5)
    targets = {
        "class": torch.tensor([0, 1, 2, 3, 4, 1]),
        "weight": torch.rand(5),
        "real": torch.randn(6, 5),
        "unit": torch.rand(6, 5),
    }
    compare(
        lambda x, targets: LOSSES[name](x, targets, reduction),
        x.requires_grad_(),
        targets,
        backward=True,
    )


def test_spatial_cross_entropy():
    x = torch.randn(2, 3, 4, 4)
    check(F.cross_entropy, x, torch.randint(3, (2, 4, 4)))


def test_a_target_out_of_range_raises():
    x = torch.randn(2, 3).to("xla")
    with pytest.raises(IndexError):
        F.nll_loss(x, torch.tensor([0, 3], device="xla")).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_of_many(dtype):
    """Picked without sorting all: NaN of either sign first."""
    x = torch.arange(-60.0, 60.0).remainder(41).view(2, 2, 30).to(dtype)
    x[0, 0, 3:9] = torch.tensor([torch.inf, torch.nan, -torch.nan, -torch.inf, 3.0, 80.0])
    for dim in (2, -1):
        compare(lambda x, dim=dim: x.topk(4, dim).values, x)
    compare(lambda x: x.transpose(0, 2).topk(4, 0).values, x)
    values, places = x.to("xla").topk(5)
    assert places.dtype == torch.int64
    torch.testing.assert_close(x.gather(2, places.cpu()), values.cpu(), equal_nan=True)
