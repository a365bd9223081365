"""F.interpolate equals the cpu's in every mode, with its gradient."""

import pytest
import torch
import torch.nn.functional as F

from agreement import compare

SIZES = {1: (2, 3, 7), 2: (2, 3, 7, 6), 3: (1, 2, 4, 5, 3)}


@pytest.mark.parametrize(
    "rank, options",
    [
        (1, {"mode": "nearest", "scale_factor": 2}),
        (2, {"mode": "nearest", "scale_factor": 2}),
        (2, {"mode": "nearest", "size": (5, 11)}),
        (3, {"mode": "nearest-exact", "size": (6, 7, 2)}),
        (1, {"mode": "linear", "scale_factor": 1.7}),
        (2, {"mode": "bilinear", "size": (9, 4)}),
        (2, {"mode": "bilinear", "size": (9, 4), "align_corners": True}),
        (3, {"mode": "trilinear", "scale_factor": 2.0}),
        (2, {"mode": "bicubic", "scale_factor": 1.5}),
        (2, {"mode": "bilinear", "size": (3, 4), "antialias": True}),
        (2, {"mode": "bicubic", "size": (3, 14), "antialias": True}),
    ],
    ids=str,
)
def test_interpolate(rank, options):
    x = torch.randn(SIZES[rank]).requires_grad_()
    compare(lambda x: F.interpolate(x, **options), x, backward=True, tolerance=1e-4)


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "options",
    [
        {"mode": "nearest", "size": (5, 11)},
        {"mode": "bilinear", "scale_factor": 2},
        {"mode": "bicubic", "size": (9, 4)},
        {"mode": "bilinear", "size": (3, 14), "antialias": True},
    ],
    ids=str,
)
def test_a_special_value_stays_where_the_cpu_leaves_it(options, special):
    x = torch.randn(1, 1, 7, 6)
    x[0, 0, 3, 4] = special
    compare(lambda x: F.interpolate(x, **options), x, tolerance=1e-4)

    def gradient(x):
        y = F.interpolate(x.nan_to_num(posinf=1).requires_grad_(), **options)
        arriving = torch.ones(y.shape)
        arriving.view(-1)[y.numel() // 3] = special
        return torch.autograd.grad(
            y, y.grad_fn.next_functions[0][0].variable, arriving.to(x.device)
        )

    compare(gradient, x, tolerance=1e-4)


def test_long_dimensions_are_gathered():
    x = torch.randn(1, 2, 70, 80).requires_grad_()
    compare(
        lambda x: F.interpolate(x, size=(90, 100), mode="bilinear"),
        x,
        backward=True,
        tolerance=1e-4,
    )


def test_channels_last_and_bytes():
    x = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    compare(lambda x: F.interpolate(x, scale_factor=2), x)
    compare(
        lambda x: F.interpolate(x, scale_factor=3),
        torch.randint(0, 255, (1, 1, 3, 3), dtype=torch.uint8),
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
