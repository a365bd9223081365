"""Operators of a graph that run on the CPU because device xla has no lowering for them."""

import functools
import warnings
from collections.abc import Callable

import torch

from .. import _C
from .replayable import devices
from .user_lines import in_words

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
                    f"lowering and would run on the CPU{in_words(node)}; write it with other "
                    "operators, move it to the CPU yourself, or leave the option out"
                )
            if name not in _warned:
                _warned.add(name)
                warnings.warn(
                    f"{name} has no lowering for device xla: it runs on the CPU, which cuts the "
                    f"compiled program there{in_words(node)}",
                    stacklevel=2,
                )


def refusing(call: Callable[[list], object]) -> Callable[[list], object]:
    """A graph as a function that raises where an operator falls back that the graph did not show,
    for its arguments or within another operator."""

    @functools.wraps(call)
    def refused(arguments: list) -> object:
        before = _C.refuse_fallbacks(True)
        try:
            return call(arguments)
        finally:
            _C.refuse_fallbacks(before)

    return refused


def falls_back(node: torch.fx.Node) -> bool:
    """Whether a node is an operator that has no lowering for the device of its tensors."""
    if not isinstance(node.target, torch._ops.OpOverload) or not _is_on_xla(node):
        return False
    schema = node.target._schema
    return _C.route_of(schema.name, schema.overload_name) == "fallback"


def _is_on_xla(node: torch.fx.Node) -> bool:
    return any(device.type == "xla" for device in devices(node, *node.all_input_nodes))
