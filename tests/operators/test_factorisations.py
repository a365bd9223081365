"""LU and QR factors, what is made of them, and the exponential of matrices equal the cpu's."""

import pytest
import torch

from agreement import compare, compare_errors

L = torch.linalg
DTYPES = [torch.float32, torch.float64, torch.complex64]
# Of each kind one: batches, wide and tall, more than a panel.
MATRICES = [
    ((2, 5, 3), torch.complex64),
    ((2, 1, 3, 5), torch.float64),
    ((70, 45), torch.float32),
    ((40, 70), torch.float32),
]
TOLERANCES = {torch.float64: 1e-8}


def matrix(*sizes, dtype=torch.float32):
    torch.manual_seed(sum(sizes))
    return torch.randn(*sizes, dtype=dtype)


def square(*sizes, dtype=torch.float32):
    return matrix(*sizes, dtype=dtype) + 2 * torch.eye(sizes[-1], dtype=dtype)


def compare_factors(function, *arguments, **options):
    tolerance = TOLERANCES.get(arguments[0].dtype, 2e-3)
    compare(function, *arguments, tolerance=tolerance, **options)


@pytest.mark.parametrize(("sizes", "dtype"), MATRICES)
def test_lu(sizes, dtype):
    a = matrix(*sizes, dtype=dtype)
    compare_factors(L.lu_factor_ex, a)
    compare_factors(lambda a: [t.contiguous() for t in L.lu(a)], a)
    lu, pivots = L.lu_factor(a)
    compare_factors(lambda a, p: torch.lu_unpack(a, p)[0], lu, pivots)


@pytest.mark.parametrize("sizes", [(3, 0), (0, 3), (0, 0), (0, 3, 3)])
def test_lu_of_nothing(sizes):
    compare(L.lu_factor_ex, torch.zeros(sizes))


def test_lu_names_the_first_zero_pivot():
    a = torch.tensor([[[1.0, 2], [2, 4]], [[0, 0], [0, 1]], [[0, 1], [1, 0]]])
    compare(L.lu_factor_ex, a)
    compare(torch.det, a)
    compare(L.slogdet, a)
    compare(lambda a: L.inv_ex(a).info, a)
    with pytest.raises(L.LinAlgError):
        L.inv(a.to("xla"))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_solve(dtype, left):
    a, b = square(2, 4, 4, dtype=dtype), matrix(3, 2, 4, 4, dtype=dtype)
    compare_factors(lambda a, b: L.solve(a, b, left=left), a, b)
    compare_factors(lambda a, b: L.solve(a.mT, b, left=left), a, b)
    lu, pivots = L.lu_factor(a)
    for adjoint in (False, True):
        options = {"left": left, "adjoint": adjoint}
        compare_factors(lambda a, p, b, o=options: L.lu_solve(a, p, b, **o), lu, pivots, b)


def test_solve_for_vectors():
    compare_factors(L.solve, square(4, 4), matrix(4))
    compare_factors(L.solve, square(2, 4, 4), matrix(2, 4))
    compare_errors(L.solve, square(4, 4), matrix(3))
    compare_errors(L.solve, matrix(4, 3), matrix(4))


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((3, 3), torch.complex64), ((2, 4, 4), torch.float64), ((50, 50), torch.float32)],
)
def test_inverse_and_determinant(sizes, dtype):
    a = square(*sizes, dtype=dtype)
    compare_factors(L.inv_ex, a)
    compare_factors(L.slogdet, a)
    compare_factors(L.det, a / 4)


def test_systems_differentiate():
    a, b = square(2, 4, 4).requires_grad_(), matrix(2, 4, 3).requires_grad_()
    compare_factors(L.solve, a, b, backward=True)
    compare_factors(L.inv, a, backward=True)
    compare_factors(L.det, a, backward=True)
    compare_factors(lambda a: L.slogdet(a).logabsdet, a, backward=True)
    compare_factors(lambda a: L.lu(a)[1:], a, backward=True)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize(("sizes", "dtype"), MATRICES)
def test_qr(sizes, dtype, mode):
    compare_factors(lambda a: L.qr(a, mode=mode), matrix(*sizes, dtype=dtype))


@pytest.mark.parametrize("sizes", [(3, 0), (0, 3), (0, 3, 3)])
def test_qr_of_nothing(sizes):
    compare(L.qr, torch.zeros(sizes))
    compare(lambda a: L.qr(a, mode="complete"), torch.zeros(sizes))


def test_qr_differentiates():
    compare_factors(L.qr, matrix(2, 4, 3).requires_grad_(), backward=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_reflections(dtype):
    a, factors = torch.geqrf(matrix(2, 5, 3, dtype=dtype))
    compare_factors(torch.geqrf, matrix(2, 5, 3, dtype=dtype))
    compare_factors(L.householder_product, a, factors)
    compare_factors(L.householder_product, a, factors[:, :2])
    for left, side in ((True, matrix(2, 5, 4, dtype=dtype)), (False, matrix(2, 4, 5, dtype=dtype))):
        for transpose in (False, True):
            options = {"left": left, "transpose": transpose}
            compare_factors(lambda a, f, s, o=options: torch.ormqr(a, f, s, **o), a, factors, side)
    compare_errors(L.householder_product, a.mT, factors)
    compare_errors(L.householder_product, a, factors[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponential(dtype):
    scales = torch.tensor([0, 1e-3, 1, 7]).reshape(4, 1, 1)
    compare_factors(L.matrix_exp, scales * matrix(4, 3, 3, dtype=dtype) / 2)
    compare(L.matrix_exp, torch.zeros(0, 3, 3, dtype=dtype))
    compare_factors(L.matrix_exp, matrix(2, 2, dtype=dtype).requires_grad_(), backward=True)


def test_exponential_without_end():
    a = torch.tensor([[[torch.inf, 0], [0, 1]], [[torch.nan, 0], [0, 1]], [[0, 1], [-1, 0]]])
    result = L.matrix_exp(a.to("xla")).cpu()
    assert not result[:2].isfinite().all((1, 2)).any()
    torch.testing.assert_close(result[2], L.matrix_exp(a[2]))
