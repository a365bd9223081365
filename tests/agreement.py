"""Runs one function on cpu and on xla and says where they differ."""

import pytest
import torch

import torch_pjrt


def fallbacks():
    snapshot = torch_pjrt._C.metrics_snapshot()
    counters = snapshot.get("counters", snapshot)
    return {name: count for name, count in counters.items() if name.startswith("fallback.")}


def on_device(value):
    """The same value on xla; a view becomes the same view of the same storage."""
    if isinstance(value, torch.Tensor):
        flat = torch.as_strided(
            value.detach(), (value.untyped_storage().nbytes() // value.itemsize,), (1,), 0
        )
        moved = torch.as_strided(
            flat.to("xla"), value.shape, value.stride(), value.storage_offset()
        )
        return moved.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(v) for v in value)
    return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    return []


def copied(value):
    if isinstance(value, torch.Tensor):
        flat = torch.as_strided(
            value.detach(), (value.untyped_storage().nbytes() // value.itemsize,), (1,), 0
        )
        again = torch.as_strided(flat.clone(), value.shape, value.stride(), value.storage_offset())
        return again.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(copied(v) for v in value)
    return value


def compare(expected, actual, rtol=None, atol=None, strides=True):
    expected, actual = tensors_in(expected), tensors_in(actual)
    assert len(expected) == len(actual)
    for e, a in zip(expected, actual, strict=True):
        assert a.device.type == "xla"
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        if strides and e.numel() > 1:
            assert a.stride() == e.stride()
        torch.testing.assert_close(
            a.detach().cpu(), e.detach(), rtol=rtol, atol=atol, equal_nan=True
        )


def agree(function, *args, fallback=(), rtol=None, atol=None, strides=True, backward=False):
    """Compares results and what became of the arguments; only named operators may fall back."""
    args = copied(args)
    moved = on_device(args)
    expected = function(*args)
    before = fallbacks()
    actual = function(*moved)
    if backward:
        outputs = [t for t in tensors_in(expected) if t.requires_grad]
        grads = [torch.randn(t.shape).to(t.dtype) for t in outputs]
        torch.autograd.backward(outputs, grads)
        torch.autograd.backward(
            [t for t in tensors_in(actual) if t.requires_grad], [g.to("xla") for g in grads]
        )
    new = {n for n, count in fallbacks().items() if count != before.get(n, 0)}
    assert new <= {f"fallback.aten::{name}" for name in fallback}, f"fell back: {new}"
    compare(expected, actual, rtol, atol, strides)
    compare(args, moved, rtol, atol)
    if backward:
        compare(
            [t.grad for t in tensors_in(args) if t.requires_grad],
            [t.grad for t in tensors_in(moved) if t.requires_grad],
            rtol,
            atol,
            strides=False,
        )


def agree_on_error(function, *args, match=None):
    """Both raise the same kind of exception. What the device finds comes with the first read, as an
    IndexError."""
    with pytest.raises(Exception) as expected:
        function(*copied(args))
    with pytest.raises((expected.type, IndexError), match=match):
        for t in tensors_in(function(*on_device(args))):
            t.cpu()
        torch_pjrt.sync()
