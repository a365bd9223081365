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
