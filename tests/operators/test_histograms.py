"""Histograms against the CPU: bins of every kind, edges to the last bit, and what is outside."""

import math

import pytest
import torch

import torch_pjrt
from agreement import compare, compare_errors

X = torch.randn(7, 40)
EDGES = torch.tensor([-1.5, -0.25, 0.0, 0.0, 0.7, 2.0])


def same_bits(function, *arguments):
    compare(function, *arguments, tolerance=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges_of_the_data_and_of_a_range(dtype):
    x = (3 * X).to(dtype).flatten()
    # on every edge, and beside it
    edges = torch.histogram(x, 101).bin_edges
    x = torch.cat([x, edges, edges.nextafter(edges + 1), edges[1:-1].nextafter(edges[1:-1] - 1)])
    same_bits(torch.histogram, x, 101)
    same_bits(lambda x: torch.histogram(x, 101, range=(-1.3, 2.7)), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_short_floats_need_a_range(dtype):
    x = (X * 2).to(dtype)
    same_bits(lambda x: torch.histogram(x, 9, range=(-2, 2.5)), x)
    compare(lambda x, e: torch.histogram(x, e, density=True), x, EDGES.to(dtype))
    compare_errors(torch.histogram, x, 9)


def test_edges_of_the_caller():
    for x in (X.t()[3::2], X[0, 0], X[:0], EDGES):
        same_bits(torch.histogram, x, EDGES)
    same_bits(torch.histogram, X, EDGES[::2])
    compare(torch.histogram, X, torch.tensor([math.nan, 1.0]))


def test_weights_and_density():
    weight = torch.rand(40, 7).t()
    for bins in (12, EDGES):
        compare(lambda x, w, b: torch.histogram(x, b, weight=w, density=True), X, weight, bins)
    compare(lambda x: torch.histogram(x, 3, range=(8, 9), density=True), X)


def test_special_numbers():
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0])
    compare(lambda x: torch.histogram(x, 4, range=(0, 1)), x)
    same_bits(torch.histogram, torch.full((3,), 2.0), 4)  # a range of nothing
    same_bits(lambda x: torch.histogram(x, 3, range=(1, 1)), X)
    same_bits(torch.histogram, X[:0], 4)


def test_several_dimensions():
    x = torch.randn(6, 20, 2)
    lists = [EDGES, torch.tensor([-1.0, 0.0, 1.0])]
    weight = torch.rand(6, 20)
    compare(lambda x, w: torch.histogramdd(x, [4, 3], weight=w, density=True), x, weight)
    compare(lambda x: torch.histogramdd(x, [4, 3], range=[-1, 1, -0.5, 2.0]), x)
    compare(lambda x: torch.histogramdd(x, 5), x[0])
    compare(lambda x, *bins: torch.histogramdd(x, bins), x, *lists)


def test_data_must_be_finite_at_the_next_read():
    counts, _ = torch.histogram(torch.tensor([1.0, math.inf], device="xla"), 3)
    with pytest.raises(RuntimeError, match="not finite"):
        counts.cpu()
    torch_pjrt.sync()


def test_refused():
    for arguments in [(X, 0), (X.long(), 4), (X.long(), EDGES.long()), (X, EDGES.double())]:
        compare_errors(torch.histogram, *arguments)
    for arguments in [(X, EDGES[:1]), (X, EDGES[:0]), (X, EDGES.view(2, 3))]:
        compare_errors(torch.histogram, *arguments)
    for options in [
        {"range": (1.0, 0.0)},
        {"range": (0.0, math.inf)},
        {"range": (0.0,)},
        {"weight": X[0]},
        {"weight": X.double()},
    ]:
        compare_errors(torch.histogram, X, 4, **options)
    for bins in ([4], [EDGES], [4, 4, 4]):
        compare_errors(torch.histogramdd, X[:, :2], bins)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_evenly_spaced_numbers_have_the_same_bits(dtype):
    for start, end, steps in [
        (-1.2345678, 3.9876543, 64),
        (0.1, 0.7, 1001),
        (1000.3, -10000.7, 17),
    ]:
        options = {"steps": steps, "dtype": dtype}
        expected = torch.linspace(start, end, **options)
        assert torch.equal(torch.linspace(start, end, **options, device="xla").cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_evenly_spaced_numbers_overflow_where_those_of_the_cpu_do(dtype):
    most = torch.finfo(dtype).max
    for start, end in [(0, torch.inf), (torch.inf, 0), (-most, most)]:
        options = {"steps": 17, "dtype": dtype}
        expected = torch.linspace(start, end, **options)
        result = torch.linspace(start, end, **options, device="xla").cpu()
        assert torch.equal(result.isnan(), expected.isnan())
        assert torch.equal(result.nan_to_num(), expected.nan_to_num())
