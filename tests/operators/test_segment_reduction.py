"""Reductions of runs against the CPU: lengths and offsets, axes, empty runs, NaN and gradients."""

import math

import pytest
import torch

import torch_pjrt
from agreement import compare, compare_errors

KINDS = ["sum", "mean", "max", "min", "prod"]
LENGTHS = torch.tensor([2, 0, 3, 1, 0])
OFFSETS = torch.tensor([0, 2, 2, 5, 6, 6])


def data(*sizes):
    """Few different numbers, so that some are the greatest twice; zeros and NaN."""
    x = torch.randint(-2, 3, sizes).float()
    x.view(-1)[:: x.numel() // 2] = math.nan
    return x.requires_grad_()


@pytest.mark.parametrize("kind", KINDS)
def test_runs(kind):
    x = data(6, 4)
    compare(torch.segment_reduce, x, kind, lengths=LENGTHS, backward=True)
    options = {"offsets": OFFSETS, "initial": 1.5}
    compare(torch.segment_reduce, x, kind, backward=True, **options)
    # gradients of both signs
    compare(lambda x, k, o: -torch.segment_reduce(x, k, offsets=o), x, kind, OFFSETS, backward=True)


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "prod"])
def test_rows_have_runs_of_their_own(kind):
    lengths = torch.tensor([[2, 3, 1], [6, 0, 0], [1, 1, 4]], dtype=torch.int32)
    offsets = torch.tensor([[0, 2, 5, 6], [0, 6, 6, 6], [1, 1, 1, 4]])
    x = data(3, 6, 2)
    compare(torch.segment_reduce, x, kind, lengths=lengths, axis=1, backward=True)
    compare(torch.segment_reduce, x, kind, offsets=offsets, axis=-2, backward=True)


def test_values_of_one_run():
    y = torch.tensor([[3.0, 0.0, 2.0, 5.0], [0.0, 4.0, 0.0, math.inf], [math.nan, 2.0, 0.0, 0.5]])
    y = y.requires_grad_()
    whole = torch.tensor([[4], [4], [4]])
    for kind in KINDS:
        compare(torch.segment_reduce, y, kind, lengths=whole, axis=1, initial=2, backward=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_floats(dtype):
    x = torch.randn(6, 4).to(dtype).t().contiguous().t().requires_grad_()
    for kind in ("mean", "prod"):
        compare(torch.segment_reduce, x, kind, lengths=LENGTHS, backward=True)
    # each step is rounded
    ones = torch.ones(300, dtype=dtype)
    compare(torch.segment_reduce, ones, "sum", lengths=torch.tensor([300]), tolerance=0)


def test_nothing():
    for kind in ("sum", "mean", "max"):
        x = torch.zeros(0, 3, requires_grad=True)
        compare(torch.segment_reduce, x, kind, lengths=LENGTHS * 0, backward=True)
    none = torch.zeros(0, dtype=torch.long)
    compare(torch.segment_reduce, data(6, 4), "sum", lengths=none, unsafe=True, backward=True)
    compare(torch.segment_reduce, data(6, 4), "sum", offsets=OFFSETS[:1], backward=True)


def test_lengths_are_checked_at_the_next_read():
    x = torch.ones(6, device="xla")
    for lengths in ([1, 2], [8, -2]):
        result = torch.segment_reduce(x, "sum", lengths=torch.tensor(lengths, device="xla"))
        with pytest.raises(RuntimeError, match="segment_reduce"):
            result.cpu()
    torch_pjrt.sync()
    compare(torch.segment_reduce, torch.ones(6), "sum", lengths=LENGTHS[:3], unsafe=True)


def test_refused():
    x = data(6, 4).detach()
    for options in [
        {},
        {"lengths": LENGTHS, "axis": 1},
        {"lengths": LENGTHS.float()},
        {"lengths": LENGTHS[:0]},
        {"lengths": LENGTHS, "indices": LENGTHS},
        {"offsets": OFFSETS[:0]},
        {"offsets": OFFSETS.flip(0)},
        {"lengths": LENGTHS, "axis": 2},
    ]:
        compare_errors(torch.segment_reduce, x, "sum", **options)
    compare_errors(torch.segment_reduce, x, "median", lengths=LENGTHS)
    compare_errors(torch.segment_reduce, x.long(), "sum", lengths=LENGTHS)
