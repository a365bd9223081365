"""Gamma, Dirichlet, Poisson and binomial numbers: their laws, seeds and errors."""

import math

import pytest
import torch

import torch_pjrt
from agreement import compare_errors, fallbacks

COUNT = 100_000


def draw(function, *parameters, dtype=torch.float32):
    """COUNT numbers (rows) for each of the parameters."""
    before = fallbacks()
    moved = [torch.as_tensor(p, dtype=dtype).expand(COUNT, -1).to("xla") for p in parameters]
    sample = function(*moved)
    assert sample.dtype == dtype
    sample = sample.cpu().double()
    assert fallbacks() == before
    return sample


def check_law(sample, probability, least):
    """Chi-squared of whole numbers from `least` on, those with few expected ones together."""
    expected = probability * COUNT
    counts = torch.bincount((sample - least).long(), minlength=len(expected)).double()
    counts = counts[: len(expected)]
    many = expected > 20
    expected = torch.cat([expected[many], (COUNT - expected[many].sum()).clamp(min=1).view(1)])
    counts = torch.cat([counts[many], (COUNT - counts[many].sum()).view(1)])
    chi = ((counts - expected) ** 2 / expected).sum()
    freedom = len(expected) - 1
    assert chi < freedom + 4.5 * math.sqrt(2 * freedom) + 5


def test_poisson():
    rates = [0.0, 0.3, 4.0, 9.9, 10.0, 35.0, 900.0]
    sample = draw(torch.poisson, rates)
    assert (sample[:, 0] == 0).all()
    assert (sample == sample.floor()).all() and sample.min() == 0
    for i, rate in enumerate(rates[1:], 1):
        least = max(0, int(rate - 8 * math.sqrt(rate)))
        k = torch.arange(least, int(rate + 9 * math.sqrt(rate) + 9), dtype=torch.float64)
        check_law(sample[:, i], torch.exp(k * math.log(rate) - rate - torch.lgamma(k + 1)), least)


def test_binomial():
    trials = [5.0, 40.0, 40.0, 1000.0, 1000.0, 50.0, 50.0, 0.0]
    chances = [0.3, 0.25, 0.8, 0.6, 0.004, 0.0, 1.0, 0.5]
    sample = draw(torch.binomial, trials, chances)
    assert (sample[:, 5] == 0).all() and (sample[:, 6] == 50).all() and (sample[:, 7] == 0).all()
    for i, (n, p) in enumerate(zip(trials[:5], chances, strict=False)):
        assert sample[:, i].min() >= 0 and sample[:, i].max() <= n
        k = torch.arange(n + 1, dtype=torch.float64)
        choose = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
        check_law(sample[:, i], torch.exp(choose + k * math.log(p) + (n - k) * math.log1p(-p)), 0)


def distance(sample, cdf):
    """Kolmogorov's, times sqrt(n)."""
    y = cdf(sample.sort().values)
    steps = torch.arange(COUNT + 1, dtype=torch.float64) / COUNT
    return max((y - steps[:-1]).max(), (steps[1:] - y).max()) * math.sqrt(COUNT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gamma(dtype):
    shapes = [0.2, 0.7, 1.0, 3.5, 200.0]
    sample = draw(torch._standard_gamma, shapes, dtype=dtype)
    assert (sample > 0).all()
    for i, shape in enumerate(shapes):
        a = torch.tensor(shape, dtype=torch.float64)
        assert distance(sample[:, i], lambda x, a=a: torch.special.gammainc(a, x)) < 2.1
    assert abs(sample[:, 4].std() / math.sqrt(200) - 1) < 0.02
    none = torch._standard_gamma(torch.tensor([0.0, math.nan], device="xla")).cpu()
    assert none[0] == torch.finfo(torch.float32).tiny and none[1].isnan()


def test_dirichlet():
    shapes = torch.tensor([0.5, 1.0, 2.5])
    sample = draw(torch._sample_dirichlet, shapes)
    assert torch.allclose(sample.sum(-1), torch.ones(COUNT, dtype=torch.float64), atol=1e-6)
    mean = shapes / 4
    assert torch.allclose(sample.mean(0), mean.double(), atol=0.004)
    assert torch.allclose(sample.var(0), (mean * (1 - mean) / 5).double(), rtol=0.04)
    assert (torch._sample_dirichlet(torch.zeros(2, 4, device="xla")).cpu() == 0.25).all()
    # far below what a gamma number could be
    tiny = draw(torch._sample_dirichlet, [1e-4, 1e-4])
    assert (tiny > 0).all() and abs((tiny[:, 0] > 0.5).double().mean() - 0.5) < 0.008


def test_seeds_and_modes_give_the_same_numbers():
    x = torch.linspace(0.1, 40, 500).to("xla")

    def numbers(generator=None):
        results = [
            torch.poisson(x, generator),
            torch._sample_dirichlet(x, generator),
        ]
        return [r.cpu() for r in results]

    torch.manual_seed(4)
    first, second = numbers(), numbers()
    torch.manual_seed(4)
    again = numbers()
    own = numbers(torch.Generator(device="xla").manual_seed(4))
    for a, b, c, d in zip(first, second, again, own, strict=True):
        assert torch.equal(a, c) and torch.equal(a, d) and not torch.equal(a, b)
    mode = torch_pjrt.config.mode
    try:
        torch_pjrt.config.mode = "eager"
        torch.manual_seed(4)
        for a, b in zip(first, numbers(), strict=True):
            assert torch.equal(a, b)
    finally:
        torch_pjrt.config.mode = mode


def test_distributions_with_gradients():
    shape = torch.tensor([0.5, 2.0], device="xla", requires_grad=True)
    for law in (torch.distributions.Gamma(shape, 2.0), torch.distributions.Beta(shape, shape)):
        law.rsample((3,)).sum().backward()
        assert shape.grad.isfinite().all()
    assert torch.distributions.Binomial(7, probs=shape / 4).sample((5,)).max() <= 7


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (torch.poisson, (torch.ones(2).long(),)),
        (torch.poisson, (torch.tensor([1.0, -1.0]),)),
        (torch.poisson, (torch.tensor([1.0, math.nan]),)),
        (torch._standard_gamma, (torch.ones(2).half(),)),
        (torch._sample_dirichlet, (torch.ones(2).long(),)),
        (torch.binomial, (torch.ones(2).long(), torch.ones(2))),
        (torch.binomial, (torch.ones(2), torch.ones(2).long())),
        (torch.binomial, (torch.ones(2), torch.ones(2).double())),
        (torch.binomial, (torch.ones(2), torch.ones(3))),
    ],
)
def test_what_they_refuse(function, arguments):
    compare_errors(function, *arguments)
