"""Moves a graph whose tensors are elsewhere to an xla device, and its results back.

After the move the values that the graph's metadata describes are on xla; its arguments and results
stay where the caller has them.
"""

import weakref
from collections.abc import Sequence

import torch
from torch.utils import _pytree as pytree

from .. import _C
from .replayable import MOVED, attribute, is_write


def uses_xla(graph_module: torch.fx.GraphModule, example_inputs: Sequence[object]) -> bool:
    """Whether a tensor of Dynamo's graph is on xla."""

    def is_xla(value: object) -> bool:
        if isinstance(value, (list, tuple)):
            return any(map(is_xla, value))
        return isinstance(value, torch.Tensor) and value.device.type == "xla"

    values = [node.meta.get("example_value") for node in graph_module.graph.nodes]
    return is_xla([*example_inputs, *values])


def move_to(
    graph_module: torch.fx.GraphModule, device: torch.device, results: int | None = None
) -> None:
    """Rewrite AOTAutograd's graph. Of its outputs, the first `results` (default all) are brought
    back to their devices; an output that is an argument stays the argument itself."""
    graph = graph_module.graph
    make_on(graph_module, device)
    _move_arguments(graph, device)
    _move_results(graph, results)
    graph.lint()
    graph_module.recompile()


def give_index(graph_module: torch.fx.GraphModule, current: torch.device) -> None:
    """Operators that name device "xla" mean the one that was current when they were traced, also
    on a thread of autograd's, which has another."""

    def indexed(value: object) -> object:
        is_xla = isinstance(value, torch.device) and value.type == "xla"
        return current if is_xla and value.index is None else value

    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.args = pytree.tree_map(indexed, node.args)
                node.kwargs = pytree.tree_map(indexed, node.kwargs)


def make_on(graph_module: torch.fx.GraphModule, device: torch.device) -> None:
    """Operators that make tensors, or move them, do so on the device."""
    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                _make_on(node, device)


def _make_on(node: torch.fx.Node, device: torch.device) -> None:
    if node.op == "call_function" and not is_write(node):
        node.meta[MOVED] = device
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    if not any(argument.name == "device" for argument in node.target._schema.arguments):
        return
    takes_tensor = any(
        isinstance(part.meta.get("val"), torch.Tensor)
        for part in node.args
        if isinstance(part, torch.fx.Node)
    )
    if node.kwargs.get("device") is not None or not takes_tensor:
        node.update_kwarg("device", device)


def _move_arguments(graph: torch.fx.Graph, device: torch.device) -> None:
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for source in list(graph.nodes):
        if source.op == "placeholder" and isinstance(source.meta.get("val"), torch.Tensor):
            place = graph.inserting_before(first)
        elif source.op == "get_attr" and not _is_graph(source):
            place = graph.inserting_after(source)
        else:
            continue
        readers = [user for user in source.users if _reads(user, source)]
        if not readers:
            continue
        with place:
            moved = graph.call_function(moved_whole, (source, device))
        moved.meta = {**source.meta, MOVED: device}
        if source.op == "get_attr":
            moved.meta.setdefault("val", attribute(source))
        for user in readers:
            user.replace_input_with(source, moved)


def _is_graph(node: torch.fx.Node) -> bool:
    return node.op == "get_attr" and not isinstance(attribute(node), torch.Tensor)


def _reads(user: torch.fx.Node, argument: torch.fx.Node) -> bool:
    """Not a result, and not a write, which is one to the caller's tensor."""
    return user.op != "output" and not (is_write(user) and user.args[0] is argument)


def _move_results(graph: torch.fx.Graph, results: int | None) -> None:
    output = graph.output_node()
    values = list(output.args[0])
    count = len(values) if results is None else results
    places = [
        i
        for i, value in enumerate(values[:count])
        if isinstance(value, torch.fx.Node)
        and value.op != "placeholder"
        and isinstance(value.meta.get("val"), torch.Tensor)
    ]
    if not places:
        return
    devices = [values[i].meta["val"].device for i in places]
    with graph.inserting_before(output):
        moved = graph.call_function(moved_together, ([values[i] for i in places], devices))
        for position, i in enumerate(places):
            value = values[i]
            values[i] = graph.call_function(_at, (moved, position))
            values[i].meta = {key: kept for key, kept in value.meta.items() if key != MOVED}
    output.args = (tuple(values),)


def _at(values: list[torch.Tensor], position: int) -> torch.Tensor:
    return values[position]


def moved_whole(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on a device, with its strides also where it has gaps or overlaps."""
    if tensor.device == device:
        return tensor
    moved = tensor.to(device)
    if moved.stride() == tensor.stride():
        return moved
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    flat = torch.as_strided(tensor, (span,), (1,))
    return torch.as_strided(flat.to(device), tensor.shape, tensor.stride(), 0)


def moved_together(tensors: list[torch.Tensor], devices: list[torch.device]) -> list[torch.Tensor]:
    """The tensors on their devices; those that share a storage share one there, too."""
    storages: dict[int, list[int]] = {}
    for position, tensor in enumerate(tensors):
        storages.setdefault(tensor.untyped_storage()._cdata, []).append(position)
    moved = list(tensors)
    for places in storages.values():
        first = tensors[places[0]]
        if all(tensors[i] is first for i in places):
            whole = moved_whole(first, devices[places[0]])
            for i in places:
                moved[i] = whole
            continue
        storage = first.untyped_storage()
        count = storage.nbytes() // first.itemsize
        if any(tensors[i].dtype != first.dtype for i in places):
            raise NotImplementedError(
                "bring results of a compiled function back: two of them see one storage with "
                "different dtypes; return a clone of one"
            )
        contents = torch.as_strided(first, (count,), (1,), 0).to(devices[places[0]])
        for i in places:
            moved[i] = torch.as_strided(
                contents, tensors[i].shape, tensors[i].stride(), tensors[i].storage_offset()
            )
    return moved


def number_on(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A 0-dim CPU tensor on a device."""
    return tensor.to(device)


# What runs between the parts of a graph.
BETWEEN = {moved_whole, moved_together, number_on, _at}


class Number:
    """`number_on`, once for calls in a row with the same number."""

    def __init__(self, device: torch.device):
        self._device = device
        self._last: tuple[str, torch.Tensor] | None = None

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        number = repr(tensor.item())  # tells zeros apart, and takes one NaN for another
        last = self._last
        if last is None or last[0] != number:
            self._last = last = (number, tensor.detach().to(self._device))
        return last[1]


class Borrowed:
    """`moved_whole` of one argument as an explicit alias of its memory, where that can be had: for
    a caller who waits, before the owner may write again, for all that reads it. The alias is kept
    for the next call with the same tensor, whose contents it shows whoever writes them."""

    def __init__(self, device: torch.device):
        self._device = device
        self._last: tuple[weakref.ref, tuple, torch.Tensor] | None = None

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device == self._device:
            return tensor
        where = (_C.data_address(tensor), tensor.dtype, tensor.shape, tensor.stride())
        last = self._last
        if last is not None and last[0]() is tensor and last[1] == where:
            return last[2]
        moved, is_alias = _C.borrow(tensor.detach(), self._device)
        if moved.stride() != tensor.stride():
            return moved_whole(tensor, self._device)
        if is_alias:
            self._last = (weakref.ref(tensor, self._forget), where, moved)
        return moved

    def _forget(self, reference: weakref.ref) -> None:
        last = self._last
        if last is not None and last[0] is reference:
            self._last = None


def owned(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy of one that is borrowed."""
    return tensor.clone() if _C.is_borrowed(tensor) else tensor
