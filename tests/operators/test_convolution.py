"""Convolutions and their gradients equal the cpu's for every stride, padding, dilation, group."""

import pytest
import torch
import torch.nn.functional as F

from agreement import compare


def leaf(*sizes, dtype=torch.float32):
    return torch.randn(sizes).to(dtype).requires_grad_()


@pytest.mark.parametrize(
    "stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4), (3, 1, 2, 1)]
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank, stride, padding, dilation, groups):
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    x, w = leaf(2, 4, *(9, 8, 7)[:rank]), leaf(8, 4 // groups, *(3, 2, 3)[:rank])
    compare(
        lambda x, w, b: function(x, w, b, stride, padding, dilation, groups),
        x,
        w,
        leaf(8),
        backward=True,
        tolerance=1e-4,
    )


@pytest.mark.parametrize(
    "stride, padding, output_padding, groups, dilation",
    [(1, 0, 0, 1, 1), (2, 1, 1, 2, 1), (3, 2, 1, 1, 2)],
)
@pytest.mark.parametrize("rank", [1, 2])
def test_transposed_convolution(rank, stride, padding, output_padding, groups, dilation):
    function = (F.conv_transpose1d, F.conv_transpose2d)[rank - 1]
    x, w = leaf(2, 4, *(5, 6)[:rank]), leaf(4, 3, *(3, 2)[:rank])
    compare(
        lambda x, w, b: function(x, w, b, stride, padding, output_padding, groups, dilation),
        x,
        w,
        leaf(3 * groups),
        backward=True,
        tolerance=1e-4,
    )


def test_kernels_of_one_place_and_long_rows():
    compare(F.conv2d, leaf(2, 6, 5, 4), leaf(8, 6, 1, 1), backward=True, tolerance=1e-4)
    compare(F.conv2d, leaf(1, 2, 20, 20), leaf(3, 2, 3, 3), backward=True, tolerance=1e-4)


def test_half_precision_and_channels_last():
    w = leaf(4, 3, 3, 3, dtype=torch.bfloat16)
    compare(F.conv2d, leaf(2, 3, 6, 6, dtype=torch.bfloat16), w, tolerance=4e-2)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    compare(F.conv2d, x, leaf(4, 3, 3, 3), tolerance=1e-4)


def test_double_backward():
    def penalty(x, w):
        y = F.conv2d(x, w, padding=1)
        (g,) = torch.autograd.grad(y, x, y, create_graph=True)
        return g * g

    compare(penalty, leaf(1, 2, 4, 4), leaf(3, 2, 3, 3), backward=True, tolerance=1e-2)


def test_refuses_channels_that_do_not_fit():
    x, w = torch.zeros(1, 3, 4, 4).to("xla"), torch.zeros(2, 4, 3, 3).to("xla")
    with pytest.raises(RuntimeError, match="channels"):
        F.conv2d(x, w)
    with pytest.raises(RuntimeError, match="Kernel size"):
        F.conv2d(x, torch.zeros(2, 3, 5, 5).to("xla"))
