"""Hinge losses over classes: one target a row, and many."""

import math

import pytest
import torch

from agreement import compare, compare_errors

F = torch.nn.functional
REDUCTIONS = ["none", "mean", "sum"]
X = torch.randn(3, 5)
X[0, 2], X[1, 0] = math.nan, math.inf
CLASS = torch.tensor([1, 4, 0])
LABELS = torch.tensor([[3, 0, 3, -1, 7], [-1, 0, 1, 2, 3], [4, 3, 2, 1, 0]])
LABELS[0, 4] = 2  # after the end: not a target


def leaf(x):
    return x.clone().requires_grad_()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_one_target(p, weighted, reduction):
    weight = torch.rand(5) if weighted else None
    options = {"p": p, "margin": 0.7, "weight": weight, "reduction": reduction}
    compare(F.multi_margin_loss, leaf(X), CLASS, backward=True, **options)
    for target in (CLASS[:1], CLASS[0]):
        compare(F.multi_margin_loss, leaf(X[2]), target, backward=True, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_targets(dtype, reduction):
    x = X.to(dtype)
    compare(F.multilabel_margin_loss, leaf(x), LABELS, backward=True, reduction=reduction)
    compare(F.multilabel_margin_loss, leaf(x[2]), LABELS[2], backward=True, reduction=reduction)
    compare(torch._C._nn.multilabel_margin_loss, x[2, 0], LABELS[2, 4], reduction=0)


ONE = torch._C._nn.multi_margin_loss


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (ONE, (X, CLASS + 4)),
        (ONE, (X, -CLASS)),
        (ONE, (X, CLASS[:2])),
        (ONE, (X, CLASS.int())),
        (ONE, (X.half(), CLASS)),
        (ONE, (X, CLASS, 3)),
        (ONE, (X, CLASS, 1, 1, torch.ones(4))),
        (ONE, (X, CLASS, 1, 1, torch.ones(5).double())),
        (ONE, (X[:, :0], CLASS)),
        (F.multilabel_margin_loss, (X, LABELS + 1)),
        (F.multilabel_margin_loss, (X, LABELS - 1)),
        (F.multilabel_margin_loss, (X, LABELS[:2])),
        (F.multilabel_margin_loss, (X.long(), LABELS)),
        (F.multilabel_margin_loss, (X, LABELS.int())),
    ],
)
def test_what_they_refuse(function, arguments):
    compare_errors(function, *arguments)


def test_a_batch_without_rows():
    x, target = torch.empty(0, 4, device="xla"), torch.empty(0, dtype=torch.long, device="xla")
    # The CPU returns memory that nobody wrote.
    assert F.multi_margin_loss(x, target, reduction="sum").item() == 0
    assert F.multi_margin_loss(x, target, reduction="none").shape == (0,)
    assert F.multilabel_margin_loss(x, target.view(0, 1).expand(0, 4), reduction="sum").item() == 0
