"""Gradients of gamma, beta and Dirichlet numbers by their shapes, in each expansion of the CPU."""

import math

import pytest
import torch

from agreement import compare, compare_errors

SHAPES = torch.tensor([1e-3, 0.3, 1.0, 5.0, 8.5, 40.0, 3e4], dtype=torch.float64)
FACTORS = torch.tensor([0.0, 1e-3, 0.5, 0.89, 0.95, 1.0, 1.05, 1.11, 4.0], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gamma(dtype):
    shape, factor = torch.meshgrid(SHAPES, FACTORS, indexing="ij")
    sample = (shape * factor).to(dtype)
    compare(torch._standard_gamma_grad, shape.to(dtype), sample)
    compare(torch._standard_gamma_grad, shape[:, ::2].to(dtype), sample[:, :1])


def test_beta():
    # Below and above every threshold: x of 0.5, shapes of 6, and the mean.
    first, second = torch.meshgrid(SHAPES, SHAPES, indexing="ij")
    mean = first / (first + second)
    moved = [mean * f for f in (1e-3, 0.5, 0.97, 1.0)] + [1 - (1 - mean) * f for f in (0.4, 0.99)]
    fixed = [torch.full_like(mean, x) for x in (0.0, 0.3, 0.5, 0.7, 1.0)]
    sample = torch.stack(moved + fixed)
    first = first.expand_as(sample)
    compare(torch._dirichlet_grad, sample, first, first + second)


def test_beta_in_float32():
    # The cpu's own errors are larger, where shapes are.
    shape = torch.tensor([0.3, 2.0, 7.0, 12.0])
    sample = torch.tensor([[0.02], [0.4], [0.6], [0.9]]).expand(4, 4)
    compare(torch._dirichlet_grad, sample, shape, shape + 8, tolerance=1e-4)
    exact = torch._dirichlet_grad(sample.double(), shape.double(), (shape + 8).double())
    actual = torch._dirichlet_grad(
        sample.to("xla"), shape.expand(4, 4).to("xla"), shape.to("xla") + 8
    )
    torch.testing.assert_close(actual.cpu(), exact.float())


def test_what_has_no_gradient():
    special = torch.tensor([0.0, 0.5, 9.0, math.inf, math.nan])
    pairs = torch.cartesian_prod(special, special).unbind(1)
    compare(torch._standard_gamma_grad, *pairs)


def test_refused():
    x = torch.rand(2, 3)
    compare_errors(torch._standard_gamma_grad, x.half(), x.half())
    compare_errors(torch._standard_gamma_grad, x, x.double())
    compare_errors(torch._standard_gamma_grad, x, x.t())
    compare_errors(torch._dirichlet_grad, x.long(), x, x)
