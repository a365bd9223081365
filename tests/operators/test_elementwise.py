"""Elementwise operators give what PyTorch gives on the cpu, without a fallback."""

import itertools
import math

import pytest
import torch

from agreement import compare, compare_with_errors, programs

INF, NAN = math.inf, math.nan
REALS = [-INF, -7.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 2.5, 8.0, 100.0, INF, NAN]
INTEGERS = [-9, -3, -2, -1, 0, 1, 2, 3, 7, 100]
NUMBERS = {
    torch.float32: REALS,
    torch.float64: REALS,
    torch.bfloat16: REALS,
    torch.int64: INTEGERS,
    torch.int32: INTEGERS,
    torch.bool: [True, False],
}

FLOATING = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "sigmoid",
    "reciprocal",
    "sinc",
    "angle",
]
SAME = ["neg", "abs", "floor", "ceil", "trunc", "round", "sign", "sgn", "square", "positive"]
TESTS = ["isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "atan2",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "hypot",
    "copysign",
    "logaddexp",
    "logaddexp2",
    "xlogy",
    "remainder",
    "fmod",
    "floor_divide",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "pow",
]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]


def check(function, *inputs, **options):
    """Errors must be the cpu's, too."""
    coarse = any(getattr(x, "dtype", None) == torch.bfloat16 for x in inputs)
    compare_with_errors(function, *inputs, tolerance=2e-2 if coarse else 2e-5, **options)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("name", FLOATING + SAME + TESTS)
def test_unary(name, dtype):
    check(getattr(torch, name), torch.tensor(NUMBERS[dtype]).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    values = torch.tensor(NUMBERS[dtype]).to(dtype)
    x, y = values[:, None], values[None, :]
    if dtype == torch.int64 and name in ("remainder", "fmod", "floor_divide"):
        y = y[:, values != 0]
    if dtype == torch.int64 and name == "pow":
        x, y = x[:-1], y.clamp(0, 8)
    check(getattr(torch, name), x, y)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", BITWISE)
def test_bitwise(name, dtype):
    values = torch.tensor([0, 1, 5, 200]).to(dtype)
    check(getattr(torch, name), values[:, None], values)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
@pytest.mark.parametrize("divisor", [3, -2, 2.5])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32], ids=str)
def test_division_by_a_number(mode, divisor, dtype):
    check(torch.div, torch.arange(-7, 8).to(dtype), divisor, rounding_mode=mode)


def test_integer_division_by_the_number_zero_raises():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.ones(2, dtype=torch.int64, device="xla") // 0


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.7, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_power_of_a_number(exponent, dtype):
    check(torch.pow, torch.tensor(NUMBERS[dtype]).to(dtype), exponent)
    check(torch.pow, exponent, torch.tensor([0, 1, 2, 3]).to(dtype))


def test_another_number_is_not_another_program():
    x = torch.arange(7.0).to("xla")

    torch.add(x.clamp(min=0.25, max=0.5) * 1.5, x, alpha=0.7).cpu()
    before = programs()
    torch.add(x.clamp(min=0.125, max=0.75) * 2.5, x, alpha=0.9).cpu()
    assert programs() == before


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_number_and_empty_shapes(shape):
    x = torch.full(shape, 0.25)
    check(torch.exp, x)
    check(torch.maximum, x, torch.zeros(shape))
    check(torch.where, x > 0, x, x + 1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.addcmul(x, x, y, value=0.3),
        lambda x, y: torch.addcdiv(x, x, y, value=-2),
        lambda x, y: torch.lerp(x, y, 0.2),
        lambda x, y: torch.lerp(x, y, y),
        lambda x, y: torch.clamp(x, 0.2, 0.7),
        lambda x, y: torch.clamp(x, y * 0.5, None),
        lambda x, y: torch.where(x > y, x, 2.0),
        lambda x, y: torch.nan_to_num(x / (y - y), nan=1.0, posinf=2.0),
        lambda x, y: torch.round(x * 100, decimals=1),
        lambda x, y: torch.logit(x, eps=0.1),
        lambda x, y: torch.polygamma(2, x + 1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_ternary(function, dtype):
    torch.manual_seed(0)
    x = torch.rand(4, 5).to(dtype).t()
    y = torch.rand(5, 4).add(0.5).to(dtype)
    check(function, x, y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.addcmul_(x, y, value=0.3),
        lambda x, y: x.addcdiv_(x, y, value=-2),
        lambda x, y: x.lerp_(y, 0.2),
        lambda x, y: x.sqrt_(),
        lambda x, y: x.clamp_(min=0.3),
        lambda x, y: x.pow_(2),
        lambda x, y: x.div_(y, rounding_mode="floor"),
        lambda x, y: x.relu_(),
        lambda x, y: x.erf_(),
        lambda x, y: x[1:].mul_(3),
    ],
)
def test_in_place(function):
    torch.manual_seed(0)
    compare(function, torch.rand(4, 5), torch.rand(4, 5) + 0.5)


def test_in_place_refuses_a_dtype_that_does_not_fit():
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(2, dtype=torch.int64, device="xla").exp_()


ACTIVATIONS = [
    torch.relu,
    torch.nn.functional.leaky_relu,
    torch.nn.functional.elu,
    torch.nn.functional.selu,
    torch.nn.functional.celu,
    torch.nn.functional.gelu,
    lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    torch.nn.functional.silu,
    torch.nn.functional.mish,
    torch.nn.functional.hardtanh,
    torch.nn.functional.relu6,
    torch.nn.functional.hardswish,
    torch.nn.functional.hardsigmoid,
    torch.nn.functional.softplus,
    torch.nn.functional.logsigmoid,
    torch.nn.functional.softshrink,
    torch.nn.functional.hardshrink,
    torch.nn.functional.softsign,
    lambda x: torch.nn.functional.threshold(x, 0.1, 20),
    lambda x: torch.nn.functional.glu(x, 0),
    torch.sigmoid,
    torch.tanh,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", ACTIVATIONS)
def test_activation_and_gradient(function, dtype):
    torch.manual_seed(0)
    x = (torch.randn(6, 5) * 3).to(dtype).requires_grad_()
    compare(function, x, backward=True, tolerance=2e-2 if dtype == torch.bfloat16 else None)


def test_arctangent_of_long_arrays():
    check(torch.atan, torch.linspace(-9, 9, 400))


def test_zeta_of_arguments_that_are_not_positive():
    q = torch.tensor([-8.5, -3.0, 0.0, 0.5, 7.0])
    check(torch.special.zeta, torch.tensor([[0.5], [1.0], [2.0], [2.5], [3.0]]), q)
    check(lambda x: torch.polygamma(3, x), q)


def test_zeta_and_trigamma_of_infinity():
    infinite = torch.full((4,), float("inf"))
    check(torch.special.zeta, infinite, torch.tensor([-2.5, 0.5, 1.0, 2.0]))
    check(lambda x: torch.polygamma(1, x), infinite)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32, torch.float16])
def test_dropouts_gradient(dtype):
    gradient, mask = torch.arange(4).to(dtype), torch.tensor([True, False, True, True])
    compare(lambda g, m: torch.ops.aten.native_dropout_backward(g, m, 2.5), gradient, mask)


def test_products_with_a_mask_keep_nan_and_the_sign_of_zero():
    x, mask = torch.tensor([[-1.0, torch.inf, torch.nan, -0.0, 3.0]] * 2), torch.arange(10) > 4
    for product in (torch.mul, lambda x, m: x * m.to(x.dtype), lambda x, m: x.double() * m):
        compare(lambda x, m, p=product: (p(x, m), p(x, m).signbit()[:, ::3]), x, mask.view(2, 5))
    compare(torch.mul, torch.complex(x, x), mask.view(2, 5))
    dropped = lambda x: torch.native_dropout(x, 1.0, True)  # noqa: E731
    compare(lambda x: (dropped(x)[0], dropped(x)[0].signbit()[:, ::3]), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_rounded_quotients_of_short_types_round_as_on_the_cpu(mode, dtype):
    x, y = (torch.randn(1001) * 40).to(dtype), (torch.randn(1001) * 3).to(dtype)
    compare(torch.div, x, y, rounding_mode=mode, tolerance=0)


def test_sums_of_complex_powers():
    parts = [0.0, 1.0, -200.0, 300.0, torch.inf, -torch.inf, torch.nan]
    real = torch.tensor(list(itertools.product(parts, parts)))
    x, y = torch.complex(real, torch.randn(49, 2)).T
    for function in (torch.logaddexp, lambda x, y: torch.logcumsumexp(torch.stack([x, y]), 0)):
        finite = real.isfinite().all(1)
        compare(function, x[finite], y[finite], tolerance=1e-4)
    compare(lambda x: torch.logsumexp(x, 0), x[:3], tolerance=1e-4)
    compare(torch.nn.functional.silu, x[real.abs().lt(50).all(1)], tolerance=1e-5)
    reals = real.T
    compare(torch.logaddexp, *reals)
    compare(torch.logaddexp2, *reals, tolerance=1e-6)
    compare(lambda r: torch.logcumsumexp(r, 0), reals)


@pytest.mark.parametrize("function", [torch.complex, torch.polar])
def test_complex_numbers_from_their_parts(function):
    x, y = torch.randn(3, 4).requires_grad_(), torch.randn(4).requires_grad_()
    compare(function, x, y, backward=True, tolerance=1e-5)
    compare(function, x.detach().double().T, x.detach().double().T)
    compare_with_errors(function, x.detach(), y.detach().double())
    compare_with_errors(function, torch.arange(3), torch.arange(3))
