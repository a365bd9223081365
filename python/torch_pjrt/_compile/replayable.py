"""Tells of a graph whether a call of it is a function of its arguments on one xla device."""

import operator

import torch

_SCALARS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool, type(None))
_SIZES = {
    torch.ops.aten.sym_size.int,
    torch.ops.aten.sym_stride.int,
    torch.ops.aten.sym_numel.default,
    torch.ops.aten.sym_storage_offset.default,
}


def held_tensors(graph_module: torch.fx.GraphModule) -> tuple[torch.Tensor, ...] | None:
    """The tensors that the graph holds and reads besides its arguments; None where a call may do
    more than compute on one xla device from what it is given: read a value, call Python code, use a
    generator of its own."""
    held = []
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(graph_module)
            if not isinstance(value, torch.Tensor):
                return None
            held.append(value)
        if node.op != "output" and not _is_on_xla(node):
            return None
        if node.op == "call_function" and not _computes(node):
            return None
        if node.op in ("call_module", "call_method"):
            return None
    return tuple(held)


def _is_on_xla(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    if node.op == "get_attr" or value is None:
        # A lifted constant has no description of its own here; its own device counts.
        return True
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(
        v.device.type == "xla" or (v.device.type == "cpu" and v.dim() == 0)
        if isinstance(v, torch.Tensor)
        else isinstance(v, _SCALARS)
        for v in values
    )


def _is_only_on_xla(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(v, torch.Tensor) and v.device.type == "xla" for v in values)


def _computes(node: torch.fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        # Arithmetic of sizes, and taking apart what an operator returned.
        return target is operator.getitem or isinstance(node.meta.get("val"), _SCALARS[:-1])
    if target in _SIZES:
        return True
    if target.namespace not in ("aten", "prims"):
        return False
    if any(isinstance(value, torch.Generator) for value in node.kwargs.values()):
        return False
    if torch.Tag.nondeterministic_seeded in target.tags and not _is_only_on_xla(node):
        return False  # another stream of random numbers than xla's
    # What returns no tensor reads one, or acts otherwise.
    returns = target._schema.returns
    return bool(returns) and all(
        part.type.kind() in ("TensorType", "ListType", "OptionalType") for part in returns
    )
