"""Cholesky factors and triangular systems equal the cpu's."""

import pytest
import torch

from agreement import compare


def positive(*sizes, dtype=torch.float32):
    a = torch.randn(*sizes, dtype=dtype)
    return a @ a.mT.conj() + 3 * torch.eye(sizes[-1], dtype=dtype)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(upper):
    def values(a):  # LAPACK's strides are column-major, which is not promised
        return torch.linalg.cholesky_ex(a, upper=upper).L.contiguous()

    compare(values, positive(2, 4, 4), tolerance=1e-4)
    compare(values, positive(3, 3, dtype=torch.float64), tolerance=1e-9)
    # Larger ones are taken in blocks; only one triangle is read.
    for dtype in (torch.float64, torch.complex128):
        a = positive(2, 75, 75, dtype=dtype)
        compare(values, a.triu() if upper else a.tril(), tolerance=1e-9)


def test_cholesky_says_what_is_not_positive_definite():
    a = torch.eye(3)
    a[1, 1] = -1
    assert torch.linalg.cholesky_ex(a.to("xla")).info.item() > 0
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(a.to("xla"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_says_in_which_row_it_failed(upper, dtype):
    for size, places in ((5, (0, 2, 4)), (75, (3, 40, 74))):
        a = positive(len(places) + 1, size, size, dtype=dtype)
        for batch, place in enumerate(places):  # one matrix stays positive definite
            a[batch, place, place] = -1
        compare(lambda a: torch.linalg.cholesky_ex(a, upper=upper).info, a)
    zero, nan = torch.zeros(3, 3, dtype=dtype), positive(3, 3, dtype=dtype)
    nan[1, 1] = torch.nan
    compare(lambda a: torch.linalg.cholesky_ex(a, upper=upper).info, torch.stack([zero, nan]))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_solve_triangular(upper, left):
    a = positive(2, 3, 3)
    b = torch.randn(2, 3, 3)
    compare(
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=upper, left=left).contiguous(),
        a,
        b,
        tolerance=1e-4,
    )


def triangular(*sizes, dtype=torch.float64):
    """Its other triangle, and ones that are not on its diagonal, must not be read."""
    a = torch.randn(*sizes, dtype=dtype) / sizes[-1] ** 0.5
    return a + 2 * torch.eye(sizes[-1], dtype=dtype)


@pytest.mark.parametrize("size", [33, 64, 75, 200])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_solve_triangular_by_blocks(upper, left, unit, size):
    def solved(a, b):
        return torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)

    a, shape = triangular(2, size, size), (size, 3) if left else (3, size)
    compare(solved, a, torch.randn(2, *shape, dtype=a.dtype), tolerance=1e-9)
    compare(solved, a[0], torch.randn(2, 2, *shape, dtype=a.dtype), tolerance=1e-9)
    a = triangular(size, size, dtype=torch.complex64)
    compare(solved, a.conj(), torch.randn(shape, dtype=a.dtype), tolerance=1e-4)


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_transposed_systems_by_blocks(upper, transpose):
    a, b = triangular(75, 75, dtype=torch.complex128), torch.randn(75, 2, dtype=torch.complex128)
    compare(
        lambda a, b: torch.triangular_solve(b, a, upper=upper, transpose=transpose)[0],
        a,
        b,
        tolerance=1e-9,
    )


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
def test_a_zero_on_the_diagonal_spoils_what_depends_on_it(upper, left):
    for place in (0, 20, 31, 32, 60, 99):
        a = triangular(100, 100)
        a[place, place] = 0
        b = torch.randn(100, 2, dtype=a.dtype)

        def finite(a, b, place=place):
            x = torch.linalg.solve_triangular(a, b, upper=upper, left=left)
            own = x.select(-2 if left else -1, place)
            return x.isfinite(), x.nan_to_num(0, 0, 0), own

        compare(finite, a, b if left else b.mT, tolerance=1e-9)


def test_cholesky_solve_and_inverse():
    for size in (3, 75):
        factor = torch.linalg.cholesky(positive(size, size, dtype=torch.float64))
        b = torch.randn(size, 2, dtype=factor.dtype)
        for upper in (False, True):
            f = factor.mT if upper else factor
            compare(lambda b, f, u=upper: torch.cholesky_solve(b, f, u), b, f, tolerance=1e-9)
            compare(lambda f, u=upper: torch.cholesky_inverse(f, u), f, tolerance=1e-9)


@pytest.mark.parametrize("sizes", [(2, 0, 0), (0, 0), (0, 3, 3)])
def test_cholesky_of_nothing_succeeds(sizes):
    compare(torch.linalg.cholesky_ex, torch.zeros(sizes))
    compare(torch.linalg.cholesky, torch.zeros(sizes))
