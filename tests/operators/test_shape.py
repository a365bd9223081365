"""Joining, padding, rearranging and making tensors: the same as on cpu."""

import pytest
import torch

from agreement import assert_same, compare, compare_errors, fallbacks, programs

F = torch.nn.functional
DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16]


def of(dtype, *shape):
    return (torch.arange(torch.Size(shape).numel()) % 7).reshape(shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_joining(dtype):
    x, y = of(dtype, 2, 3), of(dtype, 4, 3)
    compare(lambda x, y: torch.cat([x, y, x]), x, y)
    compare(lambda x, y: torch.cat([x, y.t()], -1), x, of(dtype, 3, 2))
    compare(lambda x, y: torch.cat([y, x]), x, torch.tensor([], dtype=dtype))
    compare(lambda x: torch.stack([x, x], 1), x)
    compare(
        lambda x: torch.cat([x, x], 1),
        of(dtype, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
    )
    compare(lambda x: torch.cat([x.transpose(0, 1), x.transpose(0, 1)]), x)


def test_joining_promotes():
    compare(lambda *t: torch.cat(t), of(torch.int64, 2), of(torch.float32, 3), of(torch.bool, 1))
    compare(lambda *t: torch.cat(t), of(torch.bfloat16, 2), of(torch.float16, 3))
    compare(lambda *t: torch.hstack(t), of(torch.int32, 2), of(torch.uint8, 3))
    compare(
        lambda x, y: torch.cat([x, y]) * 3,
        torch.rand(2, 2, requires_grad=True),
        torch.rand(3, 2),
        backward=True,
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_rearranging(dtype):
    x = of(dtype, 2, 3, 4)
    compare(lambda x: x.flip(0, -1), x)
    compare(lambda x: x.flip(1), x.transpose(0, 2))
    compare(lambda x: x.roll(2), x)
    compare(lambda x: x.roll((1, -5), (0, 2)), x)
    compare(lambda x: x.roll(3, 1), x.transpose(1, 2))
    compare(lambda x: x.rot90(1, (1, 2)), x)
    compare(lambda x: x.repeat(2, 1, 3), x)
    compare(lambda x: x.repeat(2, 2, 1, 1), x.transpose(0, 1))
    compare(lambda x: x.tril(1), x)
    compare(lambda x: x.triu(-1), x.transpose(1, 2))
    compare(lambda x: x.tril_(-100), x)
    compare(lambda x: torch.diag_embed(x, 1), x)
    compare(lambda x: torch.block_diag(x[0], x[1, :1]), x)
    compare(lambda x: x.repeat_interleave(2, 1), x)
    compare(lambda x: x.unfold(2, 2, 1).contiguous(), x)
    compare(lambda x: torch.meshgrid(x[0, 0], x[1, :, 0], indexing="ij"), x)


def test_pixels_and_channels():
    x = of(torch.float32, 2, 8, 3, 4)
    compare(lambda x: F.pixel_shuffle(x, 2), x)
    compare(lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), x)
    compare(lambda x: F.channel_shuffle(x, 4), x)
    compare(lambda x: F.one_hot(x, 9), of(torch.int64, 2, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_constant_padding(dtype):
    x = of(dtype, 2, 3, 4)
    compare(lambda x: F.pad(x, (1, 2)), x)
    compare(lambda x: F.pad(x, (-1, 2, 0, 1, 1, -1), value=1), x)
    compare(lambda x: F.pad(x, (0, 0)), x)
    compare(lambda x: F.pad(x, (1, 1), value=2), of(dtype, 2, 0))
    compare(
        lambda x: F.pad(x, (1, 0, 2, 0)),
        of(dtype, 1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    )


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_border_padding(mode):
    def padded(*pad):
        return lambda x: F.pad(x, pad, mode=mode)

    compare(padded(2, 1), torch.randn(2, 3, 4, requires_grad=True), backward=True)
    compare(padded(-1, 2), torch.randn(3, 4, requires_grad=True), backward=True)
    compare(padded(1, 2, 3, 0), torch.randn(2, 2, 4, 5, requires_grad=True), backward=True)
    compare(
        padded(1, 2, -1, 0, 1, 1), torch.randn(1, 2, 3, 4, 5, requires_grad=True), backward=True
    )
    compare(
        padded(1, 1, 1, 1), torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    )


def made(function):
    """What `function(device)` makes on xla is what it makes on cpu, and nothing falls back."""
    before = fallbacks()
    actual = function("xla")
    assert fallbacks() == before
    assert_same(function("cpu"), actual, tolerance=0)


def test_making():
    made(lambda d: [torch.zeros(2, 3, device=d), torch.ones(2, device=d, dtype=torch.bool)])
    made(
        lambda d: [
            torch.full((2, 2), 7, device=d),
            torch.full((), 0.5, device=d),
            torch.eye(3, 5, device=d),
        ]
    )
    made(lambda d: torch.eye(4, device=d, dtype=torch.int64))
    made(lambda d: [torch.tril_indices(3, 4, 1, device=d), torch.triu_indices(4, 3, -1, device=d)])
    x = torch.rand(3, 4).t()
    compare(
        lambda x: [
            torch.zeros_like(x),
            torch.full_like(x, 3),
            x.new_ones(2),
            x.new_empty_strided((2, 3), (1, 2)).fill_(1),
        ],
        x,
    )


def test_ranges():
    made(
        lambda d: [
            torch.arange(5, device=d),
            torch.arange(2, 11, 3, device=d),
            torch.arange(5, 0, -2, device=d),
        ]
    )
    made(
        lambda d: [
            torch.arange(0.0, 1.0, 0.1, device=d),
            torch.arange(1, 2, 0.25, device=d, dtype=torch.float64),
        ]
    )
    made(lambda d: [torch.arange(3, device=d, dtype=torch.bfloat16), torch.arange(0, device=d)])
    made(
        lambda d: [
            torch.arange(-3, 300, 50, device=d, dtype=torch.int16),
            torch.arange(2**40, 2**40 + 3, device=d),
        ]
    )
    made(
        lambda d: [
            torch.linspace(0, 1, 1, device=d),
            torch.linspace(-2, 3, 6, device=d),
            torch.linspace(1, 2, 0, device=d),
        ]
    )
    made(lambda d: torch.linspace(0, 10, 4, device=d, dtype=torch.int64))
    for dtype in (torch.float32, torch.float64):
        expected = torch.linspace(-1, 7.3, 23, dtype=dtype)
        torch.testing.assert_close(
            torch.linspace(-1, 7.3, 23, dtype=dtype, device="xla").cpu(), expected
        )
        expected = torch.logspace(-2, 2, 9, base=3, dtype=dtype)
        torch.testing.assert_close(
            torch.logspace(-2, 2, 9, base=3, dtype=dtype, device="xla").cpu(), expected
        )


def test_range_numbers_do_not_compile_again():
    torch.arange(1, 6, device="xla").cpu()
    before = programs()
    torch.arange(7, 12, device="xla").cpu()
    assert programs() == before


def test_products_and_diagonals():
    compare(lambda x, y: torch.linalg.cross(x, y), torch.randn(4, 3), torch.randn(1, 3))
    compare(lambda x, y: torch.cross(x, y, dim=0), of(torch.int64, 3, 2), of(torch.int64, 3, 2) + 1)
    compare(lambda x: torch.trace(x), torch.randn(3, 5))
    compare(lambda x: torch.trace(x), of(torch.int32, 4, 3))


def test_gradients_of_views():
    x = torch.randn(3, 4, 4, requires_grad=True)
    compare(lambda x: x.unfold(1, 2, 1), x, backward=True)
    compare(lambda x: x.unfold(2, 3, 2), x, backward=True)
    compare(lambda x: x.select(1, -1), x, backward=True)
    compare(lambda x: x[1:, ::2, 1], x, backward=True)
    compare(lambda x: x.diagonal(1, 1, 2), x, backward=True)
    compare(
        lambda x: torch.as_strided(x, (3, 2), (2, 3), 1),
        x,
        backward=True,
    )
    compare(lambda x: x.roll(1, 0).flip(1).tril(), x, backward=True)


def test_scatters_of_views():
    x = of(torch.float32, 4, 5)
    compare(lambda x, s: x.select_scatter(s, 1, 2), x, torch.rand(4))
    compare(lambda x, s: x.slice_scatter(s, 0, 1, 4, 2), x, torch.rand(2, 5))
    compare(lambda x, s: x.diagonal_scatter(s, -1), x, torch.rand(3))
    compare(lambda x, s: x.as_strided_scatter(s, (2, 2), (5, 2), 1), x, torch.rand(2, 2))
    compare(
        lambda x: [
            torch.narrow_copy(x, 0, 1, 2),
            torch.view_copy(x, (20,)),
            torch.select_copy(x, 0, 1),
        ],
        x,
    )


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_search(dtype, right):
    sequence = torch.tensor([1, 3, 3, 5, 8]).to(dtype)
    values = torch.tensor([[0, 1, 3], [4, 8, 9]]).to(dtype)
    compare(lambda s, v: torch.searchsorted(s, v, right=right), sequence, values)
    compare(lambda s, v: torch.bucketize(v, s, right=right, out_int32=True), sequence, values)
    rows = torch.stack([sequence, sequence + 2])
    compare(lambda s, v: torch.searchsorted(s, v, right=right), rows, values)
    compare(lambda s: torch.searchsorted(s, 3, right=right), sequence)
    compare(lambda s, v: torch.searchsorted(s[:0], v, right=right), sequence, values)
    if dtype == torch.float32:
        special = torch.tensor([float("nan"), float("inf"), -float("inf"), 3])
        compare(
            lambda s, v: torch.searchsorted(s, v, right=right),
            torch.cat([sequence, special[:1]]),
            special,
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x, x[:, :2]]),
        lambda x: torch.cat([x, x[0]]),
        lambda x: torch.cat([x, x], 2),
        lambda x: x.flip(0, 0),
        lambda x: x.flip(2),
        lambda x: x[0].tril(),
        lambda x: F.pad(x, (-4, 0)),
        lambda x: F.pad(x, (3, 0), mode="reflect"),
        lambda x: F.pad(x, (1, 1, 1, 1, 1, 1)),
        lambda x: torch.arange(0, 5, -1, device=x.device),
        lambda x: torch.linalg.cross(x[:, :2], x[:, :2]),
        lambda x: torch.trace(x[0]),
        lambda x: x.roll((1, 2), (0,)),
    ],
)
def test_errors(function):
    compare_errors(function, of(torch.float32, 2, 3))
