"""complex32, which PJRT lacks: values are rounded to halves after each operator, as on the cpu."""

import pytest
import torch

from agreement import compare, copied

A = torch.tensor([1.1 - 2.3j, 1e-7j, 65504 + 1j, -0.0, complex("nan"), 1e-3 + 3j]).chalf()
B = torch.tensor([0.3 + 1.7j, 5, 2, 1j, 1, -7.01]).chalf()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float16, torch.int64, torch.bool])
def test_casts(dtype):
    compare(lambda x: x.chalf(), torch.tensor([1, 0, -3, 70000]).to(dtype))
    if dtype != torch.complex64:
        return
    compare(lambda x: x.to(dtype), A)
    compare(lambda x: x.chalf(), torch.tensor([1.23456 + 9e4j, -1e-8]))


@pytest.mark.parametrize(
    "operator",
    [torch.add, torch.sub, torch.mul, lambda a, b: a * 0.3 + b * 1j, lambda a, b: a.conj() * b],
)
def test_arithmetic_rounds_each_time(operator):
    def bits(a, b):
        return torch.view_as_real(operator(a, b).resolve_conj())

    expected, got = bits(A, B), bits(A.to("xla"), B.to("xla")).cpu()
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=0, equal_nan=True)


def test_from_parts():
    compare(torch.complex, torch.tensor([1.1, -0.0, 6e4]).half(), torch.rand(2, 1).half())


def test_views_see_the_same_bytes():
    compare(lambda x: (x.real, x.imag, torch.view_as_real(x)), A[:4])
    compare(lambda x: (x.view(torch.int32), x.reshape(2, 3).t(), x[::2]), A)
    compare(lambda x: torch.view_as_complex(x), torch.rand(3, 2).half())

    def write(x):
        x[1] = 2 - 3j
        x.imag[0] = 5
        x[4:] = x[:4].conj()
        return x

    compare(write, A[:4].repeat(2))


def test_it_goes_both_ways_without_a_change():
    for x in (A, A[::2], A.reshape(2, 3).t(), A.conj(), A[:0], A[0]):
        back = x.to("xla").cpu()
        assert back.dtype == torch.complex32
        assert torch.equal(
            torch.view_as_real(back.resolve_conj()).view(torch.int16),
            torch.view_as_real(x.resolve_conj()).view(torch.int16),
        )
    assert copied(B, "xla")[0].item() == B[0].item()
    assert torch.empty(3, dtype=torch.complex32, device="xla").fill_(1.5j).cpu()[2].item() == 1.5j
