"""Strides, and results that follow the cpu's own arithmetic to the last unit."""

import itertools

import pytest
import torch

from agreement import compare, compare_errors

F = torch.nn.functional
UNITS = torch.as_strided(torch.randn(12), (1, 3, 4), (7, 1, 3))


def test_dimensions_of_one_element():
    for x in (UNITS, torch.as_strided(torch.randn(12), (3, 1, 4), (4, 9, 1))):
        compare(lambda x: (x.clone(), x + 1, x + x, -x, x.double(), torch.zeros_like(x)), x)
        compare(lambda x: (x * torch.tensor(2.0), x.transpose(0, 1).clone()), x)


def test_dimensions_of_one_element_that_others_spread():
    a = torch.arange(10.0).as_strided((5, 1, 2), (2, 1, 1))
    b = torch.arange(2.0).as_strided((1, 1, 2), (2, 1, 1))
    compare(lambda a, b: (a + b, torch.maximum(a, b), a < b, torch.where(a > b, a, b)), a, b)
    compare(lambda a: (a + 1, a * torch.tensor(2), a.neg()), a)
    row = torch.ones(4).as_strided((1, 4), (1, 1))
    compare(
        lambda a: (a > 0, a == 1, torch.nan_to_num(a), torch.frexp(a), torch.where(a > 0, a, 2)),
        row,
    )
    compare(lambda a: (2**a, 2.5**a, a**2, a < 3), torch.randn(4, 3).t())
    few, row = torch.arange(3.0), torch.arange(3.0).as_strided((1, 3), (1, 1))
    compare(lambda a, b: (a - b, b - a, b - a.view(1, 1, 3)), few, row)
    compare(lambda a, b: (a * b, torch.maximum(b, a)), torch.ones(1, 1, 1), torch.ones(2, 2))


@pytest.mark.parametrize(
    "sizes, strides",
    [
        ((1, 1, 2), (7, 1, 1)),
        ((2, 3, 1, 2), (6, 2, 5, 1)),
        ((5, 5, 1), (5, 1, 5)),
        ((1, 3, 1), (3, 1, 3)),
    ],
)
def test_indexed_dimensions_of_one_element(sizes, strides):
    x = torch.arange(60.0).as_strided(sizes, strides)
    index = torch.tensor([0, 0])
    compare(lambda x, i: (x[i], x[:, :, i[:1] * 0], x[i, None], x[:, i]), x, index)


@pytest.mark.parametrize(
    "sizes", [((0, 1), (1, 0)), ((2, 0), (1, 0)), ((3, 1, 0), (1,)), ((2, 0, 3), (2, 1, 1))]
)
def test_empty_results(sizes):
    a, b = map(torch.zeros, sizes)
    compare(lambda a, b: (a + b, torch.maximum(a, b), a == b, a + 1, -a), a, b)
    a, b = a.transpose(0, -1), b.transpose(0, -1)
    compare(lambda a, b: (a + b, torch.maximum(a, b), a == b, a + 1, -a), a, b)


@pytest.mark.parametrize("gap", [1, 2])
def test_tensors_like_another_and_sorted_ones_keep_the_order_of_dimensions(gap):
    base = torch.randn(4, 3 * gap, 2 * gap)[:, ::gap, ::gap]
    for order in itertools.permutations(range(3)):
        x = base.permute(order)
        compare(lambda x: (torch.zeros_like(x), torch.full_like(x[:1].expand(3, -1, -1), 2)), x)
        compare(lambda x: (x.sort(1), torch.sort(x, dim=0, stable=True, descending=True)), x)
        compare(lambda x: torch.zeros_like(torch.bernoulli(x, 0.5)), x)


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (2, 1), (0, 1, 2)])
def test_fourier_transforms(dims):
    for x in (torch.randn(3, 4, 6), torch.randn(6, 4, 3).transpose(0, 2)):
        bounds = {"tolerance": 1e-4}
        compare(lambda x: torch.fft.rfftn(x, dim=dims), x, **bounds)
        compare(lambda x: torch.fft.fftn(x, dim=dims), x, **bounds)
        compare(lambda x: torch.fft.ihfftn(x, dim=dims).resolve_conj(), x, **bounds)
        z = torch.complex(x, x.flip(0))
        compare(lambda z: torch.fft.fftn(z, dim=dims), z, **bounds)
        compare(lambda z: torch.fft.ifftn(z, dim=dims), z.transpose(0, 1), **bounds)
        compare(lambda z: torch.fft.irfftn(z, dim=dims), z, **bounds)


def test_triangular_results_lie_in_columns():
    a = torch.randn(2, 5, 5)
    a = a @ a.mT + 5 * torch.eye(5)
    factor, rhs = torch.linalg.cholesky(a).contiguous(), torch.randn(2, 5, 3)
    bounds = {"tolerance": 1e-3}
    for pick in (slice(None), 0):
        compare(torch.linalg.cholesky, a[pick], **bounds)
        compare(torch.cholesky_inverse, factor[pick], **bounds)
        compare(torch.cholesky_solve, rhs[pick], factor[pick], **bounds)
        compare(lambda f, b: torch.triangular_solve(b, f, upper=False), factor[pick], rhs[pick])
        compare(
            lambda f, b: torch.linalg.solve_triangular(f, b, upper=False),
            factor[pick],
            rhs[pick],
            **bounds,
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resized_bytes_are_rounded_as_on_cpu(mode):
    x = torch.randint(0, 256, (1, 3, 17, 23), dtype=torch.uint8)
    for antialias, size in itertools.product((False, True), ((8, 9), (40, 31), (17, 31), (3, 23))):
        resize = lambda x, s=size, a=antialias: F.interpolate(x, s, mode=mode, antialias=a)  # noqa: E731
        compare(resize, x, tolerance=0)
        compare(resize, x.contiguous(memory_format=torch.channels_last), tolerance=0)


def test_ranges_of_integers():
    for make, dtype in itertools.product(
        (torch.linspace, torch.logspace), (torch.int64, torch.int32)
    ):
        for start, end, steps in ((-7, 9, 5), (0, 8, 4), (2.6, 7.9, 6), (5, -5, 7), (3.7, -3.7, 5)):
            on_cpu = make(start, end, steps, dtype=dtype)
            on_xla = make(start, end, steps, dtype=dtype, device="xla")
            assert torch.equal(on_xla.cpu(), on_cpu), (make, dtype, start, end, steps)


def test_a_vector_through_a_linear_layer_with_a_bias_of_two_dimensions():
    x, w, b = (torch.randn(*s, requires_grad=True) for s in ((4,), (3, 4), (1, 3)))
    compare(F.linear, x, w, b, backward=True, tolerance=1e-5)
    compare(F.linear, x, w, torch.randn(3, requires_grad=True), backward=True, tolerance=1e-5)


def test_splits_at_indices_of_the_device():
    x = torch.arange(12.0, requires_grad=True)
    compare(lambda x: x.tensor_split(torch.tensor([2, 5])), x, backward=True)
    compare(lambda x, i: x.tensor_split(i), x.detach(), torch.tensor([2, 5]))
    compare(lambda x, i: x.tensor_split(i), x.detach(), torch.tensor(3))


def test_fills_through_expanded_tensors():
    mask = torch.tensor([[True, False, False], [False, False, True]])
    compare(lambda x, m: x.expand(2, 3).masked_fill_(m, 7.0), torch.zeros(1, 3), mask)
    compare(lambda x, m: x.expand(2, 3).masked_fill_(m, m.sum() * 1.0), torch.zeros(2, 1), mask)


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("sizes", [(1, 4), (3, 1), (1, 1)])
def test_indexed_writes_go_through_expanded_tensors(sizes, accumulate):
    places, mask = torch.tensor([0, 1, 2, 0]), torch.tensor([True, False, True])

    def put(x, index, values):
        return torch.ops.aten.index_put_(x.expand(3, 4), index, values, accumulate)

    compare(put, torch.zeros(sizes), (places, places), torch.tensor(2.0))
    compare(put, torch.zeros(sizes), (places,), torch.full((4,), 2.0))
    compare(put, torch.zeros(sizes), (mask,), torch.tensor(2.0), fallback=["nonzero"])
    compare(put, torch.zeros(sizes), (None, places), torch.full((3, 1), 2.0))
    compare(lambda x, i: x.expand(3, 4).index_fill_(0, i, 5), torch.zeros(sizes), places[:2])
    compare(lambda x, i: x.expand(3, 4).index_fill_(1, i, i.sum()), torch.zeros(sizes), places[:2])


@pytest.mark.filterwarnings("ignore:Use of")
def test_indexed_writes_through_expanded_tensors_check_the_index():
    x, far = torch.zeros(1, 4), torch.tensor([3])
    compare_errors(lambda x, i: x.expand(3, 4).index_put_((i,), x[0, 0]), x, far)
    compare_errors(lambda x, i: x.expand(3, 4).index_fill_(0, i, 1), x, far)


def test_gated_linear_units_and_polygamma_keep_the_order_of_dimensions():
    x = torch.rand(8, 6, 4).permute(2, 1, 0)
    for dim in range(3):
        compare(lambda x, dim=dim: torch.nn.functional.glu(x, dim), x)
    for order in range(3):
        compare(lambda x, n=order: torch.polygamma(n, x), x)
    infinite = torch.tensor([1.5, float("inf"), float("nan")])
    compare(lambda x: torch.polygamma(1, x), infinite)
    compare(lambda x: torch.polygamma(1, x), torch.arange(1, 5))
