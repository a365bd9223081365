"""Splits a graph by device, into as few parts as the order of its effects allows.

A part on an xla device only computes, so that it can be replayed. What lies between the parts,
moves from device to device and arithmetic of sizes, are steps of their own. Numbers that a 0-dim
CPU operator makes from nothing are made in each part that reads them.
"""

import collections
import dataclasses
import operator
from collections.abc import Sequence

import torch
from torch.fx import Node

from . import fallbacks, placement
from .replayable import (
    MOVED,
    attribute,
    computes,
    devices,
    is_only_on_xla,
    is_size,
    is_write,
    tensors,
)

# Places of operators besides xla devices. MIXED ones have an xla tensor as well, or draw random
# numbers.
NATIVE, MIXED = "native", "mixed"
_BETWEEN, _NUMBER = "between", "number"

# Operators that may return their argument, though their schema does not say so.
_UNANNOTATED_VIEWS = {torch.ops.aten._unsafe_view.default}
# Operators that write what their schema says they only read.
_SECRET_WRITERS = {
    torch.ops.aten.native_batch_norm.default,
    torch.ops.aten.cudnn_batch_norm.default,
    torch.ops.aten.miopen_batch_norm.default,
}


@dataclasses.dataclass
class Part:
    """`place`: an xla device, NATIVE or MIXED. Numbers may be in several parts."""

    place: torch.device | str
    nodes: list[Node]


Step = Part | Node


class CannotSplit(Exception):
    pass


def split(graph: torch.fx.Graph, separate_mixed: bool) -> list[Step]:
    """The steps in an order in which they may run. Raises CannotSplit where that is not known to be
    right. `separate_mixed`: whether a NATIVE part must not contain MIXED operators."""
    places = {node: _place_of(node, separate_mixed) for node in graph.nodes if _runs(node)}
    _settle_numbers(graph, places)
    steps = [node for node in graph.nodes if places.get(node, _NUMBER) != _NUMBER]
    needed = _order(steps, set(steps))
    first = list(dict.fromkeys(places[node] for node in steps if places[node] != _BETWEEN))
    if not separate_mixed and not any(isinstance(place, torch.device) for place in first):
        raise CannotSplit
    orders = [_schedule(steps, places, needed, place) for place in first or [None]]
    order = _delay_exports(min(orders, key=_count_parts), needed)
    for step in order:
        if isinstance(step, Part):
            step.nodes = [*_numbers_of(step.nodes, places), *step.nodes]
    return order


def place_constants(graph_module: torch.fx.GraphModule) -> None:
    """Constants that the graph moves to xla are there once, instead of being moved at each call."""
    graph = graph_module.graph
    for node in list(graph.nodes):
        source = node.args[0] if is_move(node) else None
        if source is not None and source.target is torch.ops.aten.lift_fresh_copy.default:
            source = source.args[0]
        if source is None or source.op != "get_attr" or node.meta["val"].device.type != "xla":
            continue
        name = f"_on_xla_{node.name}"
        graph_module.register_buffer(name, node.target(attribute(source), **node.kwargs))
        with graph.inserting_before(node):
            constant = graph.get_attr(name)
            constant.meta["val"] = node.meta["val"]
            copy = graph.call_function(torch.ops.aten.clone.default, (constant,))
            copy.meta = dict(node.meta)
        node.replace_all_uses_with(copy)
    graph.eliminate_dead_code()


def upload_numbers(graph: torch.fx.Graph) -> bool:
    """Numbers that the caller or a CPU operator gives, in 0-dim CPU tensors, reach operators of xla
    as xla tensors, so that a call with other numbers is replayed, too. Whether there are any."""
    if not any(_is_number(node) for node in graph.nodes):
        return False
    places = {node: _place_of(node, False) for node in graph.nodes if _runs(node)}
    _settle_numbers(graph, places)
    uploaded: dict[tuple[Node, torch.device], Node] = {}
    for node in list(graph.nodes):
        place = places.get(node)
        if not isinstance(place, torch.device) or not _takes_numbers(node):
            continue
        for source in node.all_input_nodes:
            given = source.op == "placeholder" or places.get(source) == NATIVE
            numbers = list(tensors(source.meta.get("val"))) if given else []
            if not numbers or devices(source) or MOVED in source.meta:
                continue
            if (source, place) not in uploaded:
                with graph.inserting_before(node):
                    upload = graph.call_function(placement.number_on, (source, place))
                upload.meta = {**source.meta, MOVED: place}
                uploaded[source, place] = upload
            node.replace_input_with(source, uploaded[source, place])
    return bool(uploaded)


def _is_number(node: Node) -> bool:
    """Whether a node's tensors are 0-dim and on the CPU."""
    return not devices(node) and next(tensors(node.meta.get("val")), None) is not None


def _takes_numbers(node: Node) -> bool:
    """Whether an operator computes the same with a number on its own device. Exponents decide
    which program is made; with a shorter type it would be rounded first."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    name = target._schema.name
    exact = all(
        tensor.dtype in (torch.float32, torch.float64) for tensor in tensors(node.meta.get("val"))
    )
    is_elementwise = torch.Tag.pointwise in target.tags or name.startswith("aten::_foreach_")
    return exact and is_elementwise and "pow" not in name


def roots(graph: torch.fx.Graph) -> dict[Node, frozenset[Node]]:
    """For each node those whose memory it may be a view of: itself, if none."""
    found: dict[Node, frozenset[Node]] = {}
    for node in graph.nodes:
        found[node] = frozenset([node])
        if not _may_alias(node):
            continue
        sources = [found[source] for source in node.all_input_nodes if source in found]
        if sources:
            found[node] = frozenset().union(*sources)
    return found


def is_move(node: Node) -> bool:
    """From one device to another, of which one is an xla device."""
    if node.op != "call_function" or node.target is not torch.ops.aten._to_copy.default:
        return False
    source, target = (devices(n, numbers=True) for n in (node.args[0], node))
    return source != target and any(device.type == "xla" for device in source | target)


def _runs(node: Node) -> bool:
    return node.op not in ("placeholder", "get_attr", "output")


def _place_of(node: Node, separate_mixed: bool) -> torch.device | str:
    target = node.target
    if node.op != "call_function":
        raise CannotSplit
    if target in placement.BETWEEN or is_size(node) or is_move(node):
        return _BETWEEN
    if target is operator.getitem:
        return _place_of(node.args[0], separate_mixed)
    if not isinstance(target, torch._ops.OpOverload):
        raise CannotSplit
    if (target._schema.is_mutable and not is_write(node)) or target in _SECRET_WRITERS:
        raise CannotSplit
    used = devices(node, *node.all_input_nodes)
    if computes(node) and not fallbacks.falls_back(node) and len(used) <= 1:
        (place,) = used or {None}
        if place is not None and place.type == "xla" and devices(node) == used:
            return place
        if place is None and not _is_random(node) and not is_write(node):
            return _NUMBER
    is_mixed = _is_random(node) or any(device.type == "xla" for device in used)
    return MIXED if is_mixed and separate_mixed else NATIVE


def _settle_numbers(graph: torch.fx.Graph, places: dict[Node, torch.device | str]) -> None:
    """What is made from values of the call, or read elsewhere than in parts, is made once."""

    def stays(node: Node) -> bool:
        made_from_nothing = all(
            source.op == "get_attr" or places.get(source) == _NUMBER
            for source in node.all_input_nodes
        )
        return made_from_nothing and all(
            user.op != "output"
            and places[user] != _BETWEEN
            and (places[user] == _NUMBER or devices(user))
            for user in node.users
        )

    left = [node for node in graph.nodes if places.get(node) == _NUMBER]
    while moved := [node for node in left if not stays(node)]:
        places.update(dict.fromkeys(moved, NATIVE))
        left = [node for node in left if places[node] == _NUMBER]


def _numbers_of(nodes: Sequence[Node], places: dict[Node, torch.device | str]) -> list[Node]:
    found: dict[Node, None] = {}
    for node in nodes:
        for source in node.all_input_nodes:
            if places.get(source) == _NUMBER:
                found.update(dict.fromkeys([*_numbers_of([source], places), source]))
    return list(found)


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _is_barrier(node: Node) -> bool:
    """May do what its schema does not say."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target.namespace not in ("aten", "prims") or not target._schema.returns


def _may_alias(node: Node) -> bool:
    target = node.target
    if target is operator.getitem:
        return True
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target.namespace not in ("aten", "prims") or target in _UNANNOTATED_VIEWS:
        return True
    return any(part.alias_info is not None for part in target._schema.returns)


def _order(steps: Sequence[Node], running: set[Node]) -> dict[Node, set[Node]]:
    """For each step those that have to come before it."""
    needed: dict[Node, set[Node]] = {}
    readers: dict[Node, list[Node]] = collections.defaultdict(list)  # of the caller's memory
    writers: dict[Node, list[Node]] = collections.defaultdict(list)
    random: dict[object, Node] = {}
    barrier: Node | None = None
    before: list[Node] = []
    memory = roots(steps[0].graph) if steps else {}
    for node in steps:
        needs = needed[node] = {source for source in node.all_input_nodes if source in running}
        if _is_barrier(node):
            needs.update(before)
            barrier = node
        elif barrier is not None:
            needs.add(barrier)
        if _is_random(node):
            for device in devices(node, numbers=True):
                if device in random:
                    needs.add(random[device])
                random[device] = node
        for given in {root for source in node.all_input_nodes for root in memory[source]}:
            if given.op == "placeholder":
                needs.update(writers[given])
                readers[given].append(node)
        if is_write(node):
            given = node.args[0]
            needs.update(reader for reader in readers[given] if reader is not node)
            writers[given].append(node)
        before.append(node)
    return needed


def _schedule(
    steps: Sequence[Node],
    places: dict[Node, torch.device | str],
    needed: dict[Node, set[Node]],
    place: torch.device | str | None,
) -> list[Step]:
    """Each part takes all that can run there, then comes the turn of the place that can do most."""
    order: list[Step] = []
    waiting, done = list(steps), set()

    def ready(at: torch.device | str) -> list[Node]:
        taken: dict[Node, None] = {}
        for node in waiting:
            if places[node] == at and all(n in done or n in taken for n in needed[node]):
                taken[node] = None
        return list(taken)

    while waiting:
        between = ready(_BETWEEN)
        order += between
        done.update(between)
        waiting = [node for node in waiting if node not in done]
        others = dict.fromkeys(places[node] for node in waiting)
        choices = {at: ready(at) for at in others if at != _BETWEEN}
        nodes = choices.get(place) or max(choices.values(), key=len, default=[])
        if not nodes:
            if waiting and not between:
                raise CannotSplit
            continue
        order.append(Part(places[nodes[0]], nodes))
        done.update(nodes)
        waiting = [node for node in waiting if node not in done]
        place = None
    return order


def _count_parts(order: Sequence[Step]) -> int:
    return sum(isinstance(step, Part) for step in order)


def _delay_exports(order: Sequence[Step], needed: dict[Node, set[Node]]) -> list[Step]:
    """A move from xla waits for the device: as late as what reads it allows, so that other work
    comes first."""
    result: list[Step] = []
    for step in reversed(order):
        if not isinstance(step, Node) or not _is_export(step):
            result.append(step)
            continue
        place = len(result)
        while place > 0 and not _depends(result[place - 1], step, needed):
            place -= 1
        result.insert(place, step)
    return result[::-1]


def _is_export(node: Node) -> bool:
    return is_move(node) and is_only_on_xla(node.args[0])


def _depends(step: Step, on: Node, needed: dict[Node, set[Node]]) -> bool:
    nodes = step.nodes if isinstance(step, Part) else [step]
    return any(on in needed[node] for node in nodes)
