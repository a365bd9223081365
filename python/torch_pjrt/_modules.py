"""`module.to("xla")` and back keep Parameter identity.

PyTorch replaces a module's Parameters when they move between device types that cannot share a
TensorImpl, which unties tied weights and cuts an optimizer off. Parameters that move to or from
xla are swapped in place instead.
"""

import functools

import torch

# The slot must stay for what holds it; the contents of both tensors are exchanged.
_swap = torch.utils.swap_tensors


def _moves(parameter: torch.nn.Parameter, applied: torch.Tensor) -> bool:
    devices = {parameter.device.type, applied.device.type}
    return len(devices) == 2 and "xla" in devices


def _swap_parameters(module: torch.nn.Module, fn) -> dict[int, torch.Tensor]:
    """Swaps those that `fn` moves; the results of `fn` for the others, by id."""
    others = {}
    for parameter in module._parameters.values():
        if parameter is None or id(parameter) in others:
            continue
        with torch.no_grad():
            applied = fn(parameter)
        if not _moves(parameter, applied):
            others[id(parameter)] = applied
            continue
        gradient, parameter.grad = parameter.grad, None
        replacement = torch.nn.Parameter(applied, parameter.requires_grad)
        if type(parameter) is not torch.nn.Parameter:
            replacement = applied.as_subclass(type(parameter)).requires_grad_(
                parameter.requires_grad
            )
        replacement.__dict__.update(parameter.__dict__)
        _swap(parameter, replacement)
        if gradient is not None:
            with torch.no_grad():
                parameter.grad = fn(gradient)
    return others


def install() -> None:
    stock_apply = torch.nn.Module._apply

    @functools.wraps(stock_apply)
    def _apply(self, fn, recurse=True):
        # `stock_apply` calls this for each child; then its own loop finds nothing left to move.
        # What `fn` made of the parameters that stay, perhaps a copy, is not made twice.
        made = _swap_parameters(self, fn)
        return stock_apply(self, lambda t: made.pop(id(t)) if id(t) in made else fn(t), recurse)

    torch.nn.Module._apply = _apply
