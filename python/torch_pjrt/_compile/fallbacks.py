"""Operators of a graph that run on the CPU because device xla has no lowering for them."""

import functools
import warnings
from collections.abc import Callable

import torch

from .. import _C, metrics
from .replayable import devices

_warned: set[str] = set()


def find(graph_module: torch.fx.GraphModule, allowed: bool) -> None:
    """Warn once for each operator that will fall back, or raise where that is not allowed."""
    for module in graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if not falls_back(node):
                continue
            name = node.target.name()
            if not allowed:
                raise NotImplementedError(
                    f"compile for device xla with options={{'fallback': False}}: {name} has no "
                    f"lowering and would run on the CPU{_user_line(node)}; write it with other "
                    "operators, move it to the CPU yourself, or leave the option out"
                )
            if name not in _warned:
                _warned.add(name)
                warnings.warn(
                    f"{name} has no lowering for device xla: it runs on the CPU, which cuts the "
                    f"compiled program there{_user_line(node)}",
                    stacklevel=2,
                )


def refusing(call: Callable[[list], object]) -> Callable[[list], object]:
    """Raises after a call in which an operator fell back that the graph did not show."""

    @functools.wraps(call)
    def checked(arguments: list) -> object:
        before = metrics.fallbacks()
        results = call(arguments)
        ran = {name for name, count in metrics.fallbacks().items() if count != before.get(name, 0)}
        if ran:
            raise NotImplementedError(
                f"run a program with options={{'fallback': False}}: {', '.join(sorted(ran))} ran "
                "on the CPU, for arguments that device xla has no lowering for; leave the option "
                "out, or write it with other operators"
            )
        return results

    checked._boxed_call = True
    return checked


def falls_back(node: torch.fx.Node) -> bool:
    """Whether a node is an operator that has no lowering for the device of its tensors."""
    if not isinstance(node.target, torch._ops.OpOverload) or not _is_on_xla(node):
        return False
    schema = node.target._schema
    return _C.route_of(schema.name, schema.overload_name) == "fallback"


def _is_on_xla(node: torch.fx.Node) -> bool:
    return any(device.type == "xla" for device in devices(node, *node.all_input_nodes))


def _user_line(node: torch.fx.Node) -> str:
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip()]
    places = [i for i, line in enumerate(lines) if line.startswith("File ")]
    if not places:
        return ""
    return " (" + ": ".join(lines[places[-1] : places[-1] + 2]) + ")"
