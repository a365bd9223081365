"""Many tensors between the host and a device in one call.

Each result is what `tensor.to(device)` gives for its tensor: dtype, values and strides are kept, a
tensor that is there already is returned as it is, and gradients flow. Copies share no memory with
each other, also where the tensors given do, or where one is given twice.
"""

from collections.abc import Iterable

import torch

from . import _C

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, torch.nn.Buffer))


def to_device(
    tensors: Iterable[torch.Tensor], device: "torch.device | int | str" = "xla"
) -> list[torch.Tensor]:
    """Copy tensors to an xla device, in parallel; does not wait for the device."""
    tensors, is_plain = _checked(tensors, "to_device")
    device = torch.device("xla", device) if isinstance(device, int) else torch.device(device)
    if device.type != "xla":
        raise ValueError(
            f"torch_pjrt.transfer.to_device: not an xla device; got {device}, expected xla or "
            "xla:N; use Tensor.to for other devices"
        )
    if not is_plain:
        return [tensor.to(device) for tensor in tensors]
    return _C.to_device(tensors, device)


def to_host(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Execute what is recorded, wait for it, and copy the tensors to the CPU, in parallel."""
    tensors, is_plain = _checked(tensors, "to_host")
    if not is_plain:
        return [tensor.cpu() for tensor in tensors]
    return _C.to_host(tensors)


def _checked(tensors: Iterable[torch.Tensor], name: str) -> tuple[list[torch.Tensor], bool]:
    """The tensors as a list, and whether none is of a subclass with ways of its own."""
    if isinstance(tensors, torch.Tensor):
        raise TypeError(
            f"torch_pjrt.transfer.{name}: one tensor instead of several; got a Tensor, expected a "
            "list of them; use Tensor.to for one"
        )
    tensors = list(tensors)
    if _PLAIN.issuperset(map(type, tensors)):  # of thousands, a look at each would take long
        return tensors, True
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"torch_pjrt.transfer.{name}: not a tensor at position {position}; got "
                f"{type(tensor).__name__}, expected torch.Tensor"
            )
    return tensors, False
