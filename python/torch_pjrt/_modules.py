"""`module.to("xla")` and back keep Parameter identity.

PyTorch replaces a module's Parameters when they move between device types that cannot share a
TensorImpl, which unties tied weights and cuts an optimizer off. Parameters that move to or from
xla get the contents of what they became instead.
"""

import functools

import torch

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _moves(parameter: torch.nn.Parameter, applied: torch.Tensor) -> bool:
    devices = {parameter.device.type, applied.device.type}
    return len(devices) == 2 and "xla" in devices


def _refuse(gradients) -> None:
    raise RuntimeError(
        "backward: a Parameter of this graph has moved to another device; got a graph from before "
        "the move, expected one from after it; move the module first, then compute"
    )


def _replace_contents(parameter: torch.nn.Parameter, applied: torch.Tensor) -> None:
    """The Parameter keeps its class, attributes, hooks and weak references.

    `torch.utils.swap_tensors` would refuse one that a graph or a weak reference holds. Here such a
    graph keeps the contents that it has seen, and its backward raises.
    """
    # An uninitialised parameter of a lazy module refuses most functions.
    with torch._C.DisableTorchFunctionSubclass():
        replacement = applied.detach().requires_grad_(parameter.requires_grad)
        for hooks in _HOOKS:
            if (kept := getattr(parameter, hooks)) is not None:
                setattr(replacement, hooks, kept)
        if parameter.requires_grad:
            torch.autograd.graph.get_gradient_edge(parameter).node.register_prehook(_refuse)
        # A tensor subclass has its inner tensors there.
        parameter.__dict__.update(replacement.__dict__)
        torch._C._swap_tensor_impl(parameter, replacement)


def _move_parameters(module: torch.nn.Module, fn) -> dict[int, torch.Tensor]:
    """Moves those that `fn` moves; the results of `fn` for the others, by id."""
    others = {}
    for parameter in module._parameters.values():
        if parameter is None or id(parameter) in others:
            continue
        with torch.no_grad():
            applied = fn(parameter)
        if not _moves(parameter, applied):
            others[id(parameter)] = applied
            continue
        if isinstance(module, torch.jit.ScriptModule):
            raise RuntimeError(
                f"module.to({str(applied.device)!r}): a scripted module holds its parameters where "
                "Python cannot replace them; got torch.jit.ScriptModule, expected a module before "
                "torch.jit.script; move it first, then script it"
            )
        gradient, parameter.grad = parameter.grad, None
        _replace_contents(parameter, applied)
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
        made = _move_parameters(self, fn)
        return stock_apply(self, lambda t: made.pop(id(t)) if id(t) in made else fn(t), recurse)

    torch.nn.Module._apply = _apply
