"""What only data can tell is raised as cpu raises it, at the next read; what follows is right."""

import pytest
import torch

import torch_pjrt
from agreement import copied, tensors_in

F = torch.nn.functional
X = torch.randn(3, 4)
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.uint8]


def same_error(function, *arguments, match):
    with pytest.raises(Exception) as expected:
        function(*copied(arguments))
    with pytest.raises(expected.type, match=match) as actual:
        for t in tensors_in(function(*copied(arguments, "xla"))):
            t.cpu()
    assert actual.type is expected.type
    assert torch.ones(2, device="xla").sum().item() == 2


def index(x, *values):
    return torch.tensor(values, device=x.device)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.gather(0, index(x, [5])),
        lambda x: x.gather(0, index(x, [-1])),
        lambda x: x.scatter(0, index(x, [5]), 1.0),
        lambda x: x.scatter_add(0, index(x, [-5]), x),
        lambda x: x.scatter_reduce(0, index(x, [5]), x, "sum"),
        lambda x: x.index_add(0, index(x, 5), x[:1]),
        lambda x: F.one_hot(index(x, 5), 3),
    ],
)
def test_indices_out_of_bounds(function):
    same_error(function, X, match="index")


def test_a_mask_that_selects_too_many():
    same_error(lambda x: x.masked_scatter(x > -9, x[:1]), X, match="Number of elements of source")


DIVISIONS = {
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "in place": lambda x, y: x.remainder_(y),
}


@pytest.mark.parametrize("divide", DIVISIONS.values(), ids=DIVISIONS)
def test_integers_divided_by_zero(divide):
    for dtype in INTEGERS:
        x, y = torch.tensor([4, 5], dtype=dtype), torch.tensor([2, 0], dtype=dtype)
        same_error(divide, x, y, match="ZeroDivisionError")
    same_error(divide, torch.tensor([4, 5]), torch.tensor(0), match="ZeroDivisionError")


def test_what_is_no_division_by_zero():
    for divide in DIVISIONS.values():
        for x, y in (
            (torch.ones(2), torch.zeros(2)),
            (torch.ones(0).long(), torch.zeros(0).long()),
        ):
            divide(x.to("xla"), y.to("xla")).cpu()
    torch_pjrt.sync()


def test_cross_entropy_outside_of_the_unit_interval():
    inside, outside = torch.rand(3, 4), torch.tensor([0.5, float("nan"), 0.1, 1.5]).expand(3, 4)
    same_error(F.binary_cross_entropy, outside.clone(), inside, match="elements of input")
    same_error(F.binary_cross_entropy, inside, outside.clone(), match="elements of target")


def test_probabilities_outside_of_the_unit_interval():
    same_error(torch.bernoulli, X + 5, match="p_in >= 0")


def test_checks_can_be_turned_off():
    torch_pjrt.config.check_indices = False
    try:
        (index(X.to("xla"), 4) // index(X.to("xla"), 0)).cpu()
    finally:
        torch_pjrt.config.check_indices = True
