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
