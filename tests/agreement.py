"""Runs one function on cpu and on xla, and compares all that PyTorch promises of it."""

import pytest
import torch

import torch_pjrt

# Relative and absolute, where assert_close's own would be too wide.
TOLERANCES = {torch.float64: 1e-9, torch.complex128: 1e-9}


def fallbacks() -> dict[str, int]:
    """Operators that ran on the cpu so far, and how often."""
    return torch_pjrt.metrics.fallbacks()


def programs() -> int:
    """Programs compiled so far."""
    return torch_pjrt.metrics.snapshot().get("compile.programs", 0)


def tensors_in(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return tensors_in(list(value.values()))
    return [t for part in value for t in tensors_in(part)] if _is_list(value) else []


def copied(value, device="cpu"):
    """The same on a device; a view becomes the same view of a storage of its own."""
    if isinstance(value, torch.Tensor):
        count = value.untyped_storage().nbytes() // value.itemsize
        storage = torch.as_strided(value.detach(), (count,), (1,), 0).to(device, copy=True)
        view = torch.as_strided(storage, value.shape, value.stride(), value.storage_offset())
        return view.requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {name: copied(part, device) for name, part in value.items()}
    return type(value)(copied(part, device) for part in value) if _is_list(value) else value


def _is_list(value) -> bool:
    return isinstance(value, (list, tuple))


def assert_same(expected, actual, tolerance=None, device="xla") -> None:
    """Equal values (within the dtype's tolerance), dtypes, shapes and strides, on a device."""
    for e, a in zip(tensors_in(expected), tensors_in(actual), strict=True):
        assert a.device.type == device
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        assert a.stride() == e.stride()
        bound = TOLERANCES.get(e.dtype) if tolerance is None else tolerance
        if not (e.is_floating_point() or e.is_complex()):
            bound = 0
        torch.testing.assert_close(
            a.detach().cpu(), e.detach(), rtol=bound, atol=bound, equal_nan=True
        )


def compare(function, *arguments, backward=False, fallback=(), tolerance=None, **options) -> None:
    """Compares results, what became of the arguments and, with `backward`, their gradients.

    Only operators named in `fallback` may run on the cpu.
    """
    inputs, moved = copied([arguments, options]), copied([arguments, options], "xla")
    before = fallbacks()
    expected, actual = function(*inputs[0], **inputs[1]), function(*moved[0], **moved[1])
    if backward:
        weights = [torch.rand(t.shape).to(t.dtype) for t in _differentiable(expected)]
        expected_gradients = _gradients(expected, inputs, weights)
        actual_gradients = _gradients(actual, moved, [w.to("xla") for w in weights])
    fell_back = {name for name, n in fallbacks().items() if n != before.get(name, 0)}
    assert fell_back <= {f"aten::{name}" for name in fallback}
    assert_same(expected, actual, tolerance)
    assert_same(inputs, moved, tolerance)
    if backward:
        assert_same(expected_gradients, actual_gradients, tolerance)


def _differentiable(value) -> list[torch.Tensor]:
    return [t for t in tensors_in(value) if t.requires_grad]


def _gradients(results, inputs, weights):
    return torch.autograd.grad(
        _differentiable(results), _differentiable(inputs), weights, allow_unused=True
    )


def compare_errors(function, *arguments, match=None, **options) -> None:
    """Both raise the same kind of exception. What the device finds comes with the first read, as an
    IndexError."""
    inputs, moved = copied([arguments, options]), copied([arguments, options], "xla")
    with pytest.raises(Exception) as expected:
        function(*inputs[0], **inputs[1])
    with pytest.raises((expected.type, IndexError), match=match):
        for t in tensors_in(function(*moved[0], **moved[1])):
            t.cpu()
        torch_pjrt.sync()


def compare_with_errors(function, *arguments, tolerance=None, **options) -> None:
    """As `compare` where the cpu gives a result, else as `compare_errors`."""
    inputs = copied([arguments, options])
    try:
        function(*inputs[0], **inputs[1])
    except (RuntimeError, NotImplementedError, TypeError, IndexError):
        compare_errors(function, *arguments, **options)
    else:
        compare(function, *arguments, tolerance=tolerance, **options)
