"""Arithmetic of two dtypes against the CPU, which computes in the promoted one also in place."""

import itertools

import pytest
import torch

from agreement import compare, compare_errors

FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
WRITING = ["add_", "sub_", "mul_", "div_", "remainder_", "fmod_", "floor_divide_", "pow_", "atan2_"]
# Close to 1, so that what is rounded first differs from what is rounded last.
X, Y = torch.tensor([1.0, 2.5, 3.00390625]), torch.tensor([1.00000001, 1.3e-3, 3001.37]).double()


@pytest.mark.parametrize("name", WRITING)
def test_in_place(name):
    def write(x, y):
        return getattr(x, name)(y)

    for left, right in itertools.permutations(FLOATING, 2):
        compare(write, X.to(left), Y.to(right))
    compare(write, X, torch.tensor([3, 300, 5]))


def test_products_added_in_place():
    for name in ("addcmul_", "addcdiv_"):
        compare(lambda x, y, z, n=name: getattr(x, n)(y, z), X, Y, Y.flip(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "mul_", "div_"])
def test_a_short_float_and_one_number(dtype, name):
    """Bitwise: a single second operand is rounded first by some operators, and not by others."""

    def call(x, y):
        return getattr(x, name)(y)

    x = (torch.arange(300) / 100 + 1).to(dtype)
    for y in (torch.tensor(1.2345678), torch.tensor(1.2345678).double(), torch.tensor(3001)):
        compare(call, x, y, tolerance=0)
        if not name.endswith("_"):
            compare(call, y, x, tolerance=0)
    compare(lambda x: getattr(x, name)(1.2345678), x, tolerance=0)


@pytest.mark.parametrize("function", [torch.gcd, torch.lcm])
def test_divisors_of_floats_are_refused(function):
    compare_errors(function, X, X, match="not implemented for 'Float'")
    compare_errors(function, X > 2, X > 1, match="not implemented for 'Bool'")
