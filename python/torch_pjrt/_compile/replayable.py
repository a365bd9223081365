"""Tells of a node of AOTAutograd's graph where its values are, and whether it only computes."""

import functools
import operator
from collections.abc import Iterator

import torch

_SCALARS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
_SIZES = {
    torch.ops.aten.sym_size.int,
    torch.ops.aten.sym_stride.int,
    torch.ops.aten.sym_numel.default,
    torch.ops.aten.sym_storage_offset.default,
}
# Of a node that was moved after its metadata was made: where it is now.
MOVED = "torch_pjrt_device"


def held_tensors(graph_module: torch.fx.GraphModule) -> tuple[torch.Tensor, ...] | None:
    """The tensors that the graph holds and reads besides its arguments; None where a call may do
    more than compute on one xla device from what it is given: read a value, call Python code, use a
    generator of its own."""
    held = []
    if len(devices(*graph_module.graph.nodes)) > 1:
        return None
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            value = attribute(node)
            if not isinstance(value, torch.Tensor):
                return None
            held.append(value)
        if node.op not in ("output", "get_attr") and not _is_on_xla(node):
            return None
        if node.op == "call_function" and not is_size(node) and not computes(node):
            return None
        if node.op in ("call_module", "call_method"):
            return None
    return tuple(held)


def attribute(node: torch.fx.Node) -> object:
    """What a `get_attr` node reads."""
    return operator.attrgetter(node.target)(node.graph.owning_module)


def tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)


def devices(*nodes: torch.fx.Node, numbers: bool = False) -> set[torch.device]:
    """Where the nodes' tensors are; those of 0-dim CPU tensors, which may be used everywhere, only
    with `numbers`."""
    found = set()
    for node in nodes:
        value = attribute(node) if node.op == "get_attr" else node.meta.get("val")
        for tensor in tensors(value):
            device = node.meta.get(MOVED) or tensor.device
            if numbers or device.type != "cpu" or tensor.dim() > 0:
                found.add(device)
    return found


def is_size(node: torch.fx.Node) -> bool:
    """Whether a node computes numbers of the program from sizes and other such numbers."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target in _SIZES
    return isinstance(node.meta.get("val"), _SCALARS)


def computes(node: torch.fx.Node) -> bool:
    """Whether a node computes tensors from what it is given, and does nothing else."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target is operator.getitem  # takes apart what an operator returned
    if target.namespace not in ("aten", "prims") or not _returns_tensors(target):
        return False
    if any(isinstance(value, torch.Generator) for value in node.kwargs.values()):
        return False
    # Elsewhere is another stream of random numbers than xla's.
    return torch.Tag.nondeterministic_seeded not in target.tags or is_only_on_xla(node)


@functools.cache
def _returns_tensors(target: torch._ops.OpOverload) -> bool:
    """What returns none reads a tensor, or acts otherwise."""
    returns = target._schema.returns
    return bool(returns) and all(
        part.type.kind() in ("TensorType", "ListType", "OptionalType") for part in returns
    )


def is_write(node: torch.fx.Node) -> bool:
    """Whether a node writes one of the graph's arguments, which is the caller's tensor."""
    return node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"


def _is_on_xla(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(v, (torch.Tensor, *_SCALARS, type(None))) for v in values) and all(
        device.type == "xla" for device in devices(node)
    )


def is_only_on_xla(node: torch.fx.Node) -> bool:
    """Whether all of a node's tensors are on xla."""
    return all(device.type == "xla" for device in devices(node, numbers=True))
