"""Runs the same function on cpu and xla and compares everything that PyTorch promises."""

import torch

import torch_pjrt  # noqa: F401
from torch_pjrt import _C

TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 1e-5, torch.complex64: 1e-5}


def fallbacks() -> dict[str, int]:
    counters = _C.metrics_snapshot()
    return {name: n for name, n in counters.items() if name.startswith("fallback.")}


def leaves(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result or () for t in leaves(part)]


def on_xla(value):
    if isinstance(value, torch.Tensor):
        moved = value.detach().to("xla")
        return moved.requires_grad_() if value.requires_grad else moved
    return value


def compare(function, *arguments, backward=False, own_rows=True, tolerance=None, **options):
    """`own_rows`: no operator may have run on the cpu in its stead. The gradient that flows back
    is the result's own values, so that no operator of another family takes part."""
    before = fallbacks()
    moved = [on_xla(a) for a in arguments]
    moved_options = {name: on_xla(value) for name, value in options.items()}
    actual = leaves(function(*moved, **moved_options))
    expected = leaves(function(*arguments, **options))
    if backward:
        for results, inputs in ((actual, moved), (expected, arguments)):
            outputs = [t for t in results if t.requires_grad]
            wanted = [a for a in inputs if isinstance(a, torch.Tensor) and a.requires_grad]
            results += torch.autograd.grad(outputs, wanted, [t.detach() for t in outputs])
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.device.type == "xla"
        assert mine.dtype == theirs.dtype
        assert mine.stride() == theirs.stride()
        bound = tolerance or TOLERANCES.get(theirs.dtype, 1e-9)
        torch.testing.assert_close(
            mine.detach().cpu(), theirs.detach(), rtol=bound, atol=bound, equal_nan=True
        )
    if own_rows:
        assert fallbacks() == before
