"""Products of matrices and vectors equal the cpu's, also in their dtype and errors."""

import pytest
import torch

from agreement import compare, programs


def make(*sizes, dtype=torch.float32):
    if dtype.is_floating_point or dtype.is_complex:
        return (
            torch.randn(sizes).to(dtype)
            if dtype != torch.complex64
            else torch.randn(sizes, dtype=dtype)
        )
    return torch.randint(-5, 5, sizes, dtype=dtype)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8, torch.complex64],
    ids=str,
)
def test_products_in_every_dtype(dtype):
    compare(torch.mm, make(3, 4, dtype=dtype), make(4, 5, dtype=dtype))
    compare(torch.bmm, make(2, 3, 4, dtype=dtype), make(2, 4, 5, dtype=dtype))
    compare(torch.mv, make(3, 4, dtype=dtype), make(4, dtype=dtype))
    compare(torch.dot, make(7, dtype=dtype), make(7, dtype=dtype))


@pytest.mark.parametrize("beta, alpha", [(1, 1), (0, 1), (0.5, -2.0)])
def test_sums_with_a_product(beta, alpha):
    def with_factors(function):
        return lambda *tensors: function(*tensors, beta=beta, alpha=alpha)

    compare(with_factors(torch.addmm), make(5), make(3, 4), make(4, 5))
    compare(with_factors(torch.baddbmm), make(3, 1), make(2, 3, 4), make(2, 4, 5))
    compare(with_factors(torch.addbmm), make(3, 5), make(2, 3, 4), make(2, 4, 5))
    compare(with_factors(torch.addmv), make(3), make(3, 4), make(4))
    compare(with_factors(torch.addr), make(1, 1), make(3), make(4))


def test_zero_beta_ignores_nan():
    nan = torch.full((2, 2), float("nan"))
    compare(lambda m, a, b: torch.addmm(m, a, b, beta=0), nan, make(2, 3), make(3, 2))


def test_another_number_is_not_another_program():
    m, a, b = (make(2, 2).to("xla") for _ in range(3))
    torch.addmm(m, a, b, alpha=1.5).cpu()
    before = programs()
    torch.addmm(m, a, b, alpha=2.5).cpu()
    assert programs() == before


def test_transposed_and_empty_operands():
    compare(torch.mm, make(4, 3).t(), make(5, 4).t())
    compare(torch.mm, make(2, 0), make(0, 3))
    compare(torch.bmm, make(0, 2, 3), make(0, 3, 4))
    compare(torch.matmul, make(3, 1, 2, 4), make(5, 4, 3))


def test_bf16_sums_in_f32():
    ones = torch.ones(1, 4096, dtype=torch.bfloat16)
    assert torch.mm(ones.to("xla"), ones.t().to("xla")).item() == 4096


def test_gradients_of_linear():
    x, w, bias = (make(*s).requires_grad_() for s in [(2, 3, 4), (5, 4), (5,)])
    compare(torch.nn.functional.linear, x, w, bias, backward=True)


@pytest.mark.parametrize(
    "function, sizes",
    [
        (torch.mm, [(2, 3), (4, 5)]),
        (torch.mm, [(2,), (2, 2)]),
        (torch.bmm, [(2, 3, 4), (3, 4, 5)]),
        (torch.addmm, [(7,), (2, 3), (3, 5)]),
        (torch.dot, [(2,), (3,)]),
    ],
)
def test_refuses_what_the_cpu_refuses(function, sizes):
    tensors = [torch.zeros(s) for s in sizes]
    with pytest.raises(RuntimeError):
        function(*tensors)
    with pytest.raises(RuntimeError):
        function(*[t.to("xla") for t in tensors])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_addbmm_of_short_floats_rounds_after_each_batch(dtype):
    a, b = torch.rand(300, 2, 3).to(dtype), torch.rand(300, 3, 2).to(dtype)
    c = torch.rand(2, 2).to(dtype)
    # In float32 throughout, the sum is some per cent larger in bfloat16.
    compare(torch.addbmm, c, a, b, tolerance=1e-3)
    compare(lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), c, a, b, tolerance=1e-2)
    compare(torch.addbmm, c, a[:0], b[:0])
