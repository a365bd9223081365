"""Fake quantisation against the CPU: grids, what lies outside them, NaN, masks and gradients."""

import math

import pytest
import torch

from agreement import compare, compare_errors

TENSOR = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask
TENSORS = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
CHANNEL = torch.ops.aten.fake_quantize_per_channel_affine_cachemask
X = 3 * torch.randn(4, 3, 5)
X[0, 0] = torch.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30])
X[0, 1] = torch.tensor([0.25, 0.75, -0.25, 1.25, -0.5])  # ties
SCALE = torch.tensor([0.5, 0.5, 0.1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_grid(dtype):
    for scale, zero, least, most in [(0.5, 3, 0, 10), (0.1, -2, -128, 127)]:
        compare(TENSOR, X.to(dtype), scale, zero, least, most)


@pytest.mark.parametrize(
    "zero", [torch.tensor([0, 3, 5], dtype=torch.int32), torch.tensor([0.5, 20, -3])]
)
def test_a_grid_of_each_channel(zero):
    compare(CHANNEL, X, SCALE, zero, 1, 0, 10)
    compare(CHANNEL, X.transpose(1, 2), SCALE, zero, 2, 0, 10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_grid_given_by_tensors(dtype):
    scale, zero = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32)
    for enabled in (torch.tensor([1]), torch.tensor([0])):
        compare(TENSORS, X.to(dtype), scale, zero, enabled, 0, 10)
    compare(TENSORS, X.to(dtype).mT, scale[0], torch.tensor(-2.7), enabled[0] + 5, -100, 127)
    x = X.to(dtype).requires_grad_()
    compare(torch.fake_quantize_per_tensor_affine, x, scale, zero, 0, 10, backward=True)


def test_float64_is_not_rounded_before_its_place_is_found():
    x = torch.tensor([0.5 + 1e-12, 1.5 - 1e-12, 0.35 + 1e-12, 0.05, 1, 3], dtype=torch.float64)
    for scale in (1.0, 0.1, 0.3):
        compare(TENSOR, x, scale, 0, -100, 100)
    zero = torch.zeros(3, dtype=torch.int32)
    compare(CHANNEL, x.view(2, 3), torch.tensor([1.0, 0.1, 0.7]), zero, 1, -100, 100)


def test_gradients():
    x = X.clone().requires_grad_()
    zero = torch.tensor([0, 3, 5], dtype=torch.int32)
    compare(torch.fake_quantize_per_tensor_affine, x, 0.5, 3, 0, 10, backward=True)
    compare(torch.fake_quantize_per_channel_affine, x, SCALE, zero, 1, 0, 10, backward=True)


def test_refused():
    zero = torch.tensor([0, 3, 5], dtype=torch.int32)
    for arguments in [(X, 0.5, 30, 0, 10), (X, 0.5, 3, 20, 10), (X.long(), 0.5, 3, 0, 10)]:
        compare_errors(TENSOR, *arguments)
    one = torch.tensor([1])
    for arguments in [(X, SCALE, one, one, 0, 10), (X, SCALE[:1], one, one, 3, 2)]:
        compare_errors(TENSORS, *arguments)
    compare_errors(TENSORS, X.long(), SCALE[:1], one, one, 0, 10)
    for arguments in [
        (X, SCALE[:2], zero, 1),
        (X, SCALE.double(), zero, 1),
        (X, SCALE, zero.long(), 1),
        (X, SCALE, zero, 0),
        (X, SCALE, zero, 3),
        (X, SCALE, zero, -2),
        (X.long(), SCALE, zero, 1),
        (X, SCALE, zero + 20, 1),
    ]:
        compare_errors(CHANNEL, *arguments, 0, 10)
