"""frexp: every class of floating number, and strides."""

import math

import pytest
import torch

from agreement import compare, compare_errors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_every_class_of_number(dtype):
    info = torch.finfo(dtype)
    least, most, subnormal = info.tiny, info.max, info.smallest_normal * info.eps
    special = [0.0, math.inf, least, most, subnormal, least / 2, least * 0.75, 3 * subnormal]
    special += [1, 0.5, 0.75, 2, 1 - info.eps / 2, 1 + info.eps, 1e-3, 1e3]
    x = torch.tensor([*special, *[-s for s in special]], dtype=torch.float64).to(dtype)
    compare(torch.frexp, x)
    mantissa, exponent = (t.cpu() for t in torch.frexp(x.to("xla")))
    assert torch.equal(torch.signbit(mantissa), torch.signbit(x))  # -0 too
    assert torch.equal(torch.ldexp(mantissa.double(), exponent).to(dtype), x)
    mantissa, exponent = torch.frexp(torch.tensor([math.nan], dtype=dtype).to("xla"))
    assert mantissa.isnan().all()
    assert exponent.item() == torch.frexp(torch.tensor([math.nan], dtype=dtype))[1].item()


def test_shapes_strides_and_gradient():
    x = torch.randn(3, 4)
    compare(torch.frexp, x.t())
    compare(torch.frexp, x[0, 0])
    compare(torch.frexp, x[:0])
    compare(lambda x: torch.frexp(x)[0], x.clone().requires_grad_(), backward=True)


def test_out():
    out = (torch.empty(3), torch.empty(3, dtype=torch.int32))
    compare(lambda x, out: torch.frexp(x, out=out), torch.randn(3), out)


def test_integers_are_refused():
    compare_errors(torch.frexp, torch.arange(3), match="floating-point")
