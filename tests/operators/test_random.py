"""Random operators: their distributions, seeds, and that the stream depends on nothing else."""

import math

import pytest
import torch

from agreement import fallbacks, programs

COUNT = 200_000


def cdf_distance(sample, cdf):
    """Kolmogorov's distance, times sqrt(n): above 1.95 with probability 0.001."""
    x, _ = sample.double().sort()
    n = x.numel()
    expected = cdf(x)
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    return max(
        (expected - steps[:-1]).max().item(), (steps[1:] - expected).max().item()
    ) * math.sqrt(n)


def normal_cdf(x):
    return 0.5 * torch.erfc(-x / math.sqrt(2))


CONTINUOUS = {
    "uniform": (lambda x: x.uniform_(-1, 3), lambda x: ((x + 1) / 4).clamp(0, 1)),
    "normal": (lambda x: x.normal_(2, 3), lambda x: normal_cdf((x - 2) / 3)),
    "exponential": (lambda x: x.exponential_(1.5), lambda x: 1 - torch.exp(-1.5 * x)),
    "cauchy": (lambda x: x.cauchy_(1, 2), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5),
    "log_normal": (lambda x: x.log_normal_(0.5, 0.7), lambda x: normal_cdf((x.log() - 0.5) / 0.7)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name, dtype):
    fill, cdf = CONTINUOUS[name]
    before = fallbacks()
    sample = fill(torch.empty(COUNT, device="xla", dtype=dtype)).cpu()
    assert fallbacks() == before
    assert sample.isfinite().all()
    assert cdf_distance(sample, cdf) < 1.95
    # neighbours are independent
    y = cdf(sample.double())
    assert abs(torch.corrcoef(torch.stack([y[:-1], y[1:]]))[0, 1]) < 4 / math.sqrt(COUNT)


def test_moments_and_tails_of_normal():
    generator = torch.Generator(device="xla").manual_seed(3)
    x = torch.empty(2_000_000, device="xla").normal_(generator=generator).cpu().double()
    assert abs(x.mean()) < 4 / math.sqrt(x.numel())
    assert abs(x.var() - 1) < 4 * math.sqrt(2 / x.numel())
    assert abs((x**4).mean() - 3) < 0.05
    assert 4.6 < x.abs().max() < 6.5
    for tail in (3, 4):
        share = (x.abs() > tail).double().mean().item()
        expected = math.erfc(tail / math.sqrt(2))
        assert abs(share - expected) < 4 * math.sqrt(expected / x.numel())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_uniform_stays_below_one(dtype):
    x = torch.empty(COUNT, device="xla", dtype=dtype).uniform_().cpu()
    assert x.min() >= 0 and x.max() < 1


def test_bernoulli():
    for dtype in (torch.float32, torch.bool, torch.int64):
        x = torch.empty(COUNT, device="xla", dtype=dtype).bernoulli_(0.3).cpu().double()
        assert set(x.unique().tolist()) == {0.0, 1.0}
        assert abs(x.mean() - 0.3) < 4 * math.sqrt(0.21 / COUNT)
    assert (torch.empty(1000, device="xla").bernoulli_(1.0) == 1).all()
    assert (torch.empty(1000, device="xla").bernoulli_(0.0) == 0).all()
    p = torch.tensor([0.0, 0.2, 0.9, 1.0]).repeat(COUNT // 4, 1).to("xla")
    means = torch.bernoulli(p).cpu().mean(0)
    assert means[0] == 0 and means[3] == 1
    assert abs(means[1] - 0.2) < 0.01 and abs(means[2] - 0.9) < 0.01


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32])
def test_integers(dtype):
    x = torch.empty(COUNT, device="xla", dtype=dtype).random_(3, 13).cpu().double()
    counts = torch.stack([(x == k).sum() for k in range(3, 13)]).double()
    assert counts.sum() == COUNT
    chi = ((counts - COUNT / 10) ** 2 / (COUNT / 10)).sum()
    assert chi < 27.9  # 9 degrees of freedom, 0.001


def test_wide_integers():
    x = torch.empty(COUNT, device="xla", dtype=torch.int64).random_(-(2**62), 2**62).cpu().double()
    assert abs(x.mean()) < 4 * 2**62 / math.sqrt(3 * COUNT)
    y = torch.empty(COUNT, device="xla", dtype=torch.int64).random_().cpu()
    assert y.min() >= 0 and y.max() > 2**62
    z = torch.empty(COUNT, device="xla", dtype=torch.int64).random_(-(2**63), None).cpu()
    assert z.min() < -(2**62) and z.max() > 2**62
    b = torch.empty(1000, device="xla", dtype=torch.bool).random_().cpu()
    assert 300 < b.sum() < 700


def test_geometric():
    x = torch.empty(COUNT, device="xla").geometric_(0.25).cpu()
    assert x.min() == 1
    assert abs(x.mean() - 4) < 4 * math.sqrt(12 / COUNT)
    assert abs((x == 1).double().mean() - 0.25) < 0.005


def test_randperm():
    x = torch.randperm(1000, device="xla").cpu()
    assert x.dtype == torch.int64
    assert torch.equal(x.sort().values, torch.arange(1000))
    assert not torch.equal(x, torch.arange(1000))
    firsts = torch.stack([torch.randperm(4, device="xla").cpu() for _ in range(400)])[:, 0]
    assert min((firsts == k).sum() for k in range(4)) > 60


def test_a_seed_repeats_the_stream():
    generator = torch.Generator(device="xla")

    def draw():
        return [
            torch.rand(7, device="xla", generator=generator).cpu(),
            torch.randn(3, 2, device="xla", generator=generator).cpu(),
            torch.randint(0, 100, (5,), device="xla", generator=generator).cpu(),
        ]

    generator.manual_seed(5)
    first = draw()
    state = generator.get_state()
    second = draw()
    generator.manual_seed(5)
    for a, b in zip(first, draw(), strict=True):
        assert torch.equal(a, b)
    generator.set_state(state)
    for a, b in zip(second, draw(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first[0], second[0])
    generator.manual_seed(6)
    assert not torch.equal(first[0], draw()[0])


def test_one_program_for_all_seeds_and_numbers():
    generator = torch.Generator(device="xla").manual_seed(1)

    def draw(scale):
        torch.empty(33, device="xla").uniform_(0, scale, generator=generator).cpu()
        torch.empty(33, device="xla").bernoulli_(scale / 10, generator=generator).cpu()

    draw(1.0)
    before = programs()
    generator.manual_seed(2)
    draw(2.0)
    assert programs() == before


def test_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.empty(3, device="xla").uniform_(generator=torch.Generator())


def test_dropout():
    x = torch.ones(COUNT, device="xla")
    y = torch.nn.functional.dropout(x, 0.4).cpu()
    assert abs((y == 0).double().mean() - 0.4) < 4 * math.sqrt(0.24 / COUNT)
    torch.testing.assert_close(y.max(), torch.tensor(1 / 0.6))
    output, mask = torch.native_dropout(x, 0.5, True)
    torch.testing.assert_close(output.cpu(), mask.cpu() * 2.0)


def test_multinomial():
    generator = torch.Generator(device="xla").manual_seed(8)
    weights = torch.tensor([0.0, 1.0, 2.0, 0.0, 5.0], device="xla")
    drawn = torch.multinomial(weights, 40_000, replacement=True, generator=generator).cpu()
    shares = drawn.bincount(minlength=5) / drawn.numel()
    assert shares[0] == 0 and shares[3] == 0
    torch.testing.assert_close(shares, weights.cpu() / 8, atol=0.012, rtol=0)
    rows = weights.expand(20_000, 5)
    pairs = torch.multinomial(rows, 2, generator=generator).cpu()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    first = pairs[:, 0].bincount(minlength=5) / 20_000
    torch.testing.assert_close(first, weights.cpu() / 8, atol=0.016, rtol=0)
    for bad in ([-1.0, 2.0], [float("nan"), 1.0], [0.0, 0.0]):
        with pytest.raises(RuntimeError, match="probability tensor|sum of probabilities"):
            torch.multinomial(torch.tensor(bad, device="xla"), 1)
