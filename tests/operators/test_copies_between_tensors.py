"""copy_ and fill_ refuse what the cpu refuses: sizes that do not fit, and shared elements."""

import pytest
import torch

from agreement import compare_errors, compare_with_errors

SIZES = [
    ((3,), (2,)),
    ((3,), (2, 3)),
    ((1, 3), (2, 3)),
    ((0,), (3, 0)),
    ((0, 3), (2, 3)),
    ((0, 3), (0,)),
    ((3,), (0,)),
]


@pytest.mark.parametrize("target, source", SIZES)
def test_sizes_that_do_not_fit(target, source):
    x, y = torch.zeros(target), torch.zeros(source)
    compare_errors(lambda x, y: x.copy_(y), x, y)
    with pytest.raises(RuntimeError):
        x.to("xla").copy_(y)
    with pytest.raises(RuntimeError):
        x.copy_(y.to("xla"))


def test_nothing_is_copied_where_sizes_fit():
    compare_with_errors(lambda x, y: x.copy_(y), torch.zeros(0, 3), torch.ones(1, 3))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.view(3, 1).copy_(x),
        lambda x: x.view(3, 1).copy_(x.view(3)[:1]),
        lambda x: x[:1].copy_(x[0]),
        lambda x: x[:1].view(1, 1).copy_(x[:1]),
        lambda x: x.copy_(x.view(3)),
        lambda x: x.fill_(x[1]),
        lambda x: x[:1].fill_(x[0]),
        lambda x: x[:1].expand(3).fill_(x[0]),
    ],
)
def test_copies_within_one_memory(write):
    compare_with_errors(lambda x: (write(x), x), torch.arange(3.0))
