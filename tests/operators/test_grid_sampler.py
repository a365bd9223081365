"""grid_sample: every mode, padding and alignment, with gradients."""

import itertools
import math

import pytest
import torch

from agreement import compare, compare_errors

F = torch.nn.functional
MODES = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
PADDINGS = ["zeros", "border", "reflection"]


def inputs(rank, sizes=(4, 5, 3), dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(2, 3, *sizes[:rank], generator=generator, dtype=dtype)
    grid = torch.randn(2, *(3, 4, 2)[:rank], rank, generator=generator, dtype=dtype) * 1.5
    return image, grid


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("rank", "mode"), MODES)
def test_every_mode(rank, mode, padding):
    large = mode == "bicubic"  # programs that take seconds to compile
    for align in (True, False):
        for sizes in ((4, 5, 3),) if large and align else ((4, 5, 3), (1, 1, 1))[large:]:
            image, grid = inputs(rank, sizes)
            compare(
                lambda x, g, align=align: F.grid_sample(x, g, mode, padding, align),
                image.requires_grad_(),
                grid.requires_grad_(),
                backward=True,
            )


def test_dtypes_and_strides():
    image, grid = inputs(2)
    sample = lambda x, g: F.grid_sample(x, g, align_corners=False)  # noqa: E731
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 5e-2), (torch.float16, 5e-3)):
        exact = grid.to(dtype)
        compare(sample, image.to(dtype), exact, tolerance=bound)
    compare(sample, image.contiguous(memory_format=torch.channels_last), grid)
    compare(sample, image[:, :, ::2], grid.transpose(1, 2))
    compare(sample, image, grid[:, :0])


@pytest.mark.parametrize(("rank", "mode"), MODES)
def test_places_that_are_no_numbers(rank, mode):
    image = torch.arange(3.0**rank).view(1, 1, *[3] * rank)
    grid = torch.zeros(1, *[1] * (rank - 1), 4, rank)
    grid.view(-1, rank)[:, 0] = torch.tensor([math.nan, math.inf, -math.inf, 1e6])
    for padding in PADDINGS if mode != "bicubic" else ["zeros"]:
        compare(lambda x, g, p=padding: F.grid_sample(x, g, mode, p, True), image, grid)


def test_only_the_wanted_gradient():
    image, grid = inputs(2)
    sample = lambda x, g: F.grid_sample(x, g, align_corners=True)  # noqa: E731
    compare(sample, image.requires_grad_(), grid, backward=True)
    compare(sample, image.detach(), grid.requires_grad_(), backward=True)


def test_errors():
    image, grid = inputs(2)
    for bad_image, bad_grid in itertools.chain(
        [(image, grid[..., :1]), (image[:1], grid), (image[0], grid), (image.long(), grid.long())],
        [(image[:, :, :0], grid), (image.float(), grid)],
    ):
        compare_errors(lambda x, g: F.grid_sample(x, g, align_corners=True), bad_image, bad_grid)
    volume, places = inputs(3)
    compare_errors(
        lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=True), volume, places
    )


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize(("rank", "mode"), [m for m in MODES if m[1] != "bicubic"])
def test_short_floats_round_after_each_step(rank, mode, align):
    # Along 40 elements a place in bfloat16 may be off by an eighth of one.
    for dtype, bound in ((torch.bfloat16, 3e-2), (torch.float16, 5e-3)):
        image, grid = inputs(rank, (40, 30, 20), dtype)
        compare(
            lambda x, g: F.grid_sample(x, g, mode, "border", align), image, grid, tolerance=bound
        )


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_leaves_out_special_values_that_it_does_not_touch(mode, padding, special):
    x = torch.randn(1, 2, 5, 6)
    x[:, :, 0, 0] = special  # which places outside are clipped to
    grid = torch.tensor([[[[0.1, 0.3], [3.0, -2.0], [-1.2, 0.5], [0.9, 1.4]]]])
    grad = torch.ones(1, 2, 1, 4)

    def gradients(x, grid, grad):
        leaves = (x.nan_to_num(posinf=1).requires_grad_(), grid.clone().requires_grad_())
        y = F.grid_sample(*leaves, mode=mode, padding_mode=padding, align_corners=False)
        return torch.autograd.grad(y, leaves, grad)

    def sample(x, grid):
        return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)

    compare(sample, x, grid, tolerance=1e-4)
    grad[..., 1] = float("nan")
    compare(gradients, x, grid, grad, tolerance=1e-4)


def test_grid_sample_of_volumes_leaves_out_special_values_outside():
    x = torch.randn(1, 2, 3, 4, 5)
    grid = torch.tensor([[[[[0.1, 0.3, 0.2], [3.0, -2.0, 0.1], [-1.2, 0.5, 2.0]]]]])
    grad = torch.ones(1, 2, 1, 1, 3)
    grad[..., 1] = float("nan")

    def gradients(x, grid, grad):
        leaves = (x.clone().requires_grad_(), grid.clone().requires_grad_())
        return torch.autograd.grad(F.grid_sample(*leaves, align_corners=False), leaves, grad)

    compare(gradients, x, grid, grad)
    x[:, :, 0, 0, 0] = float("nan")
    compare(lambda x, grid: F.grid_sample(x, grid, align_corners=False), x, grid)
