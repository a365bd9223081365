"""Runs one function on the CPU as it is, and compiled on xla, and compares all that they did."""

import copy

import torch

import torch_pjrt
from agreement import assert_same, tensors_in


def toy(x, y, middle, end):
    """The program with a move in its middle that other backends refuse."""
    a = torch.sin(x).to(middle)
    b = torch.sin(y).to(middle)
    return (a + b).to(end)


def compare_compiled(
    function, *arguments, calls=2, tolerance=None, device="xla", **options
) -> None:
    """Results, written arguments, gradients and which tensors share a storage, at each call.

    `device`: where the arguments of the compiled function are.
    """
    compiled = torch.compile(function, backend="pjrt", **options)
    expected_inputs, actual_inputs = _copies(arguments, "cpu"), _copies(arguments, device)
    for _ in range(calls):
        expected, actual = function(*expected_inputs), compiled(*actual_inputs)
        compare_values(expected, actual)
        assert_same(expected, actual, tolerance, device)
        assert _sharing([expected_inputs, expected]) == _sharing([actual_inputs, actual])
        if torch.is_grad_enabled():
            _backward(expected)
            _backward(actual)
        gradients = [_gradients(inputs) for inputs in (expected_inputs, actual_inputs)]
        assert_same(*gradients, tolerance, device)
        assert_same(_everything(expected_inputs), _everything(actual_inputs), tolerance, device)


def compare_values(expected, actual) -> None:
    """The same structure, and equal where no tensor is."""
    assert type(expected) is type(actual)
    if isinstance(expected, dict):
        assert list(expected) == list(actual)
        expected, actual = list(expected.values()), list(actual.values())
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual)
        for e, a in zip(expected, actual, strict=True):
            compare_values(e, a)
    elif isinstance(expected, torch.Tensor):
        assert expected.requires_grad == actual.requires_grad
    else:
        assert expected == actual


def _copies(arguments, device: str) -> list:
    """Copies on a device. Views of one storage stay that, and an argument given twice, too."""
    storages: dict[int, torch.Tensor] = {}
    tensors: dict[int, torch.Tensor] = {}

    def copy_of(value):
        if isinstance(value, torch.nn.Module):
            return copy.deepcopy(value).to(device)
        if isinstance(value, (list, tuple)):
            return type(value)(map(copy_of, value))
        if not isinstance(value, torch.Tensor) or id(value) in tensors:
            return tensors.get(id(value), value)
        key = value.untyped_storage()._cdata
        if key not in storages:
            count = value.untyped_storage().nbytes() // value.itemsize
            whole = torch.as_strided(value.detach(), (count,), (1,), 0)
            storages[key] = whole.to(device, copy=True)
        view = torch.as_strided(
            storages[key], value.shape, value.stride(), value.storage_offset()
        ).detach()
        tensors[id(value)] = view.requires_grad_(value.requires_grad)
        return tensors[id(value)]

    return [copy_of(value) for value in arguments]


def _everything(inputs) -> list[torch.Tensor]:
    found = tensors_in(inputs)
    for value in inputs:
        if isinstance(value, torch.nn.Module):
            found += [*value.parameters(), *value.buffers()]
    return found


def _sharing(values) -> list[int]:
    """For each tensor, the first one with the same storage."""
    storages = [t.untyped_storage()._cdata for t in tensors_in(values)]
    return [storages.index(storage) for storage in storages]


def _backward(results) -> None:
    total = sum(
        (t.abs() if t.is_complex() else t).float().pow(2).sum()
        for t in tensors_in(results)
        if t.requires_grad
    )
    if isinstance(total, torch.Tensor):
        total.backward()


def _gradients(inputs) -> list[torch.Tensor]:
    return [t.grad for t in _everything(inputs) if t.is_leaf and t.grad is not None]


def counted(name: str) -> int:
    return int(torch_pjrt.metrics.snapshot().get(name, 0))


def replays_of(work) -> int:
    before = counted("execute.replays")
    work()
    return counted("execute.replays") - before


def bytes_copied(work) -> int:
    """Of moves between the devices, and of what was shared and then written."""
    names = [
        "transfer.host_to_device.bytes",
        "transfer.device_to_host.bytes",
        "export.materialised.bytes",
        "import.materialised.bytes",
    ]
    adopted = ["transfer.host_to_device.adopted.bytes", "transfer.device_to_host.adopted.bytes"]

    def total() -> int:
        torch_pjrt.sync()
        return sum(map(counted, names)) - sum(map(counted, adopted))

    before = total()
    work()
    return total() - before


# An operator that only the cpu has: on xla it falls back.
_LIBRARY = torch.library.Library("torch_pjrt_tests", "DEF")
_LIBRARY.define("cpu_only(Tensor x) -> Tensor")
_LIBRARY.impl("cpu_only", lambda x: x * 3, "CPU")
_LIBRARY.impl("cpu_only", torch.empty_like, "Meta")
cpu_only = torch.ops.torch_pjrt_tests.cpu_only
