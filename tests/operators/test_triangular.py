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
    for place in (3, 40, 74):
        a = positive(75, 75)
        a[place, place] = -1
        assert torch.linalg.cholesky_ex(a.to("xla")).info.item() > 0


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


def test_cholesky_solve_and_inverse():
    factor = torch.linalg.cholesky(positive(3, 3))
    b = torch.randn(3, 2)
    compare(lambda b, f: torch.cholesky_solve(b, f).contiguous(), b, factor, tolerance=1e-3)
    compare(lambda f: torch.cholesky_inverse(f).contiguous(), factor, tolerance=1e-3)


@pytest.mark.parametrize("sizes", [(2, 0, 0), (0, 0), (0, 3, 3)])
def test_cholesky_of_nothing_succeeds(sizes):
    compare(torch.linalg.cholesky_ex, torch.zeros(sizes))
    compare(torch.linalg.cholesky, torch.zeros(sizes))
