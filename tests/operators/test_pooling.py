"""Pooling equals the cpu's: values, indices, gradients, strides."""

import pytest
import torch
import torch.nn.functional as F

from agreement import compare


def leaf(*sizes):
    return torch.randn(sizes).requires_grad_()


@pytest.mark.parametrize(
    "kernel, stride, padding, dilation, ceil",
    [
        (2, 2, 0, 1, False),
        (3, 2, 1, 1, True),
        (2, 3, 0, 2, False),
        (3, 3, 1, 1, True),
        (9, 1, 4, 1, False),
    ],
)
def test_max_pool2d(kernel, stride, padding, dilation, ceil):
    compare(
        lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil, return_indices=True),
        leaf(2, 3, 11, 10),
        backward=True,
    )


def test_max_pool_of_other_ranks_and_special_values():
    compare(lambda x: F.max_pool1d(x, 3, 2), leaf(2, 3, 9), backward=True)
    compare(
        lambda x: F.max_pool3d(x, 2, 1, 1, return_indices=True), leaf(1, 2, 4, 5, 3), backward=True
    )
    x = torch.full((1, 1, 4, 4), float("-inf"))
    x[0, 0, 1, 1] = float("nan")
    compare(lambda x: F.max_pool2d(x, 3, 2, 1), x)
    compare(lambda x: F.max_pool2d(x, 2), torch.randint(-9, 9, (1, 2, 6, 6)))


@pytest.mark.parametrize(
    "kernel, stride, padding, ceil, count_padding, divisor",
    [
        (2, 2, 0, False, True, None),
        (3, 2, 1, True, False, None),
        (3, 1, 1, False, True, 5),
        (7, 2, 3, True, True, None),
    ],
)
def test_avg_pool2d(kernel, stride, padding, ceil, count_padding, divisor):
    compare(
        lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, count_padding, divisor),
        leaf(2, 3, 11, 10),
        backward=True,
    )


def test_avg_pool_of_other_ranks():
    compare(lambda x: F.avg_pool1d(x, 3, 2, 1), leaf(2, 3, 9), backward=True)
    compare(lambda x: F.avg_pool3d(x, 2, 1, 1), leaf(1, 2, 4, 5, 3), backward=True)
    compare(
        lambda x: F.avg_pool2d(x, 2), torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    )


@pytest.mark.parametrize("output", [1, (3, 5), (4, 7), (2, 12)])
def test_adaptive_pools(output):
    x = leaf(2, 3, 8, 10)
    compare(
        lambda x: torch._adaptive_avg_pool2d(x, [output] * 2 if output == 1 else output),
        x,
        backward=True,
    )
    compare(lambda x: F.adaptive_max_pool2d(x, output, return_indices=True), x, backward=True)


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
def test_a_special_value_stays_in_its_windows(special):
    x = torch.randn(1, 2, 12, 12)
    x[0, 0, 3, 4] = special
    compare(lambda x: F.adaptive_avg_pool2d(x, 5), x)
    plain = torch.randn(1, 2, 12, 12)
    grad = torch.randn(1, 2, 5, 5)
    grad[0, 0, 2, 2] = special
    compare(torch.ops.aten._adaptive_avg_pool2d_backward, grad, plain)


def test_adaptive_pools_of_three_dimensions():
    compare(lambda x: torch._adaptive_avg_pool3d(x, (2, 3, 2)), leaf(1, 2, 4, 5, 6), backward=True)
    compare(lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)), leaf(1, 2, 4, 5, 6), backward=True)


def test_refuses_too_small_inputs():
    with pytest.raises(RuntimeError, match="too small"):
        F.max_pool2d(torch.zeros(1, 1, 2, 2).to("xla"), 3)
    with pytest.raises(RuntimeError, match="half of"):
        F.avg_pool2d(torch.zeros(1, 1, 8, 8).to("xla"), 2, padding=2)
