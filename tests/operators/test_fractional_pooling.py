"""Fractional max pooling: the CPU's windows from the same samples, NaN, ties and gradients."""

import math

import pytest
import torch

from agreement import compare, compare_errors

POOL = {2: torch.ops.aten.fractional_max_pool2d, 3: torch.ops.aten.fractional_max_pool3d}


def leaf(*sizes, dtype=torch.float32):
    x = torch.randint(-9, 9, sizes).to(dtype)  # with ties
    x.view(-1)[::11], x.view(-1)[::17] = math.nan, -math.inf
    return x.requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_planes(dtype):
    samples = torch.rand(3, 3, 2).to(dtype)  # more of them than the batch
    x = leaf(2, 3, 40, 11, dtype=dtype)
    compare(POOL[2], x, [2, 2], [17, 5], samples, backward=True)


@pytest.mark.parametrize(("kernel", "output"), [([2, 1, 2], [3, 1, 4]), ([4, 5, 4], [2, 2, 2])])
def test_volumes(kernel, output):
    compare(POOL[3], leaf(2, 6, 7, 9), kernel, output, torch.rand(1, 2, 3), backward=True)


def test_module_without_a_batch_and_strides():
    samples = torch.rand(1, 4, 2)
    pool = torch.nn.FractionalMaxPool2d(3, output_ratio=0.5)
    x = torch.randn(8, 9, 4).permute(2, 0, 1).requires_grad_()
    compare(POOL[2], x, [3, 3], [4, 4], samples, backward=True)
    assert pool(x.detach().to("xla")).shape == (4, 4, 4)
    compare(POOL[2], torch.randn(0, 4, 8, 8), [3, 3], [4, 4], torch.rand(0, 4, 2))


def test_windows_that_overlap_add_their_gradients():
    x = torch.zeros(1, 1, 5, 5)
    x[0, 0, 2, 2] = 1
    compare(POOL[2], x.requires_grad_(), [3, 3], [3, 3], torch.rand(1, 1, 2), backward=True)


@pytest.mark.parametrize(
    "arguments",
    [
        (torch.randn(2, 3, 5, 5), [4, 4], [3, 3], torch.rand(2, 3, 2)),
        (torch.randn(2, 3, 5, 5), [2, 2], [3, 3], torch.rand(2, 2, 2)),
        (torch.randn(2, 3, 5, 5), [2, 2], [3, 3], torch.rand(1, 3, 2)),
        (torch.randn(2, 3, 5, 5), [2, 2], [3, 3], torch.rand(2, 3, 2).double()),
        (torch.randn(2, 3, 5, 0), [2, 2], [3, 3], torch.rand(2, 3, 2)),
        (torch.randn(5, 5), [2, 2], [3, 3], torch.rand(2, 3, 2)),
        (torch.ones(2, 3, 5, 5).long(), [2, 2], [3, 3], torch.ones(2, 3, 2).long()),
    ],
)
def test_refused(arguments):
    compare_errors(POOL[2], *arguments)
