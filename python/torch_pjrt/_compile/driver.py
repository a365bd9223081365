"""A split graph as one function: calls the parts in order and moves what crosses their borders.

It is Python source, as torch.fx's own, so that a value is dropped at its last use and can be
donated or written in place by whoever gets it then.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import torch
from torch.fx import Graph, GraphModule, Node

from .. import _C
from . import placement, split
from .replayable import attribute, devices, is_only_on_xla, is_write
from .split import Part, Step

CompilePart = Callable[[GraphModule, Part], Callable[[list], object]]


@dataclasses.dataclass
class Ours:
    """Tensors on other devices that operators of forward made and only backward knows, by the names
    of their nodes, which both graphs have."""

    names: set[str] = dataclasses.field(default_factory=set)


def drive(
    graph_module: GraphModule,
    steps: Sequence[Step],
    compile_part: CompilePart,
    results: int | None,
    ours: Ours,
) -> Callable[[list], object]:
    """The function, which takes the list of its arguments and empties it. Of the graph's outputs
    the first `results` (None: all) go to the caller; the others are kept for backward."""
    writer = _Writer(graph_module, steps, Borders(graph_module, steps, results, ours))
    for step in steps:
        if isinstance(step, Part):
            writer.call_part(step, compile_part)
        else:
            writer.call_between(step)
    return writer.finish()


class Borders:
    """How the values that cross a border may share memory."""

    def __init__(
        self, graph_module: GraphModule, steps: Sequence[Step], results: int | None, ours: Ours
    ):
        graph = graph_module.graph
        outputs = list(graph.output_node().args[0])
        results = len(outputs) if results is None else results
        self._roots = split.roots(graph)
        natively = [
            node
            for step in steps
            if isinstance(step, Part) and not isinstance(step.place, torch.device)
            for node in step.nodes
        ]
        self._made = set(filter(_is_made_by, natively))
        self._made.update(
            node for node in graph.nodes if node.op == "placeholder" and node.name in ours.names
        )
        self._given_away = self._roots_of(outputs[:results])
        # Operators of others may keep what they are given.
        self._seen_by_others = self._roots_of(
            source
            for node in graph.nodes
            if getattr(node.target, "namespace", "aten") not in ("aten", "prims")
            for source in node.all_input_nodes
        )
        self._read_natively = {source for node in natively for source in node.all_input_nodes}
        self._outputs, self._results = outputs, results
        for node in outputs[results:]:
            if self.is_ours(node) and not self._roots[node] & self._given_away:
                ours.names.add(node.name)

    def is_ours(self, node: object) -> bool:
        """Whether operators of the graph made the memory of a value that is not on xla."""
        return isinstance(node, Node) and self._roots[node] <= self._made

    def owner(self, node: Node) -> _C.Owner:
        if not self.is_ours(node):
            return _C.Owner.caller
        return _C.Owner.kept if node.op == "placeholder" else _C.Owner.graph

    def may_borrow(self, node: Node) -> bool:
        """Whether what was moved from an argument ends with the call, and the argument is not
        written by it."""
        (argument,) = node.all_input_nodes
        leaves = any(
            isinstance(value, Node) and node in self._roots[value] for value in self._outputs
        )
        is_written = any(is_write(user) and user.args[0] is argument for user in argument.users)
        return argument.op == "placeholder" and not leaves and not is_written

    def kept(self) -> list[Node]:
        """What is kept on xla for backward."""
        return _with_tensors(self._outputs[self._results :], on_xla=True)

    def given_away(self) -> list[Node]:
        """The caller's results that are not on xla."""
        return _with_tensors(self._outputs[: self._results], on_xla=False)

    def is_unwritten(self, move: Node) -> bool:
        """Whether nobody can write what a move shares."""
        source = move.args[0]
        if is_only_on_xla(source):
            # The caller's part is made copy-on-write when it is given away.
            return not self._roots[move] & self._seen_by_others
        known = self._roots[source]
        is_private = not known & (self._given_away | self._seen_by_others)
        return self.is_ours(source) and is_private and source in self._read_natively

    def _roots_of(self, nodes: Iterable[object]) -> set[Node]:
        return {root for node in nodes if isinstance(node, Node) for root in self._roots[node]}


def _with_tensors(values: Iterable[object], on_xla: bool) -> list[Node]:
    """The nodes, each once, that have tensors on xla, or elsewhere."""
    return [
        node
        for node in dict.fromkeys(values)
        if isinstance(node, Node)
        and any((device.type == "xla") == on_xla for device in devices(node, numbers=True))
    ]


def _is_made_by(node: Node) -> bool:
    """Whether an operator returned new memory."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
        return False
    # A dropout that keeps everything may return its argument.
    return torch.Tag.nondeterministic_seeded not in target.tags


class _Writer:
    def __init__(self, graph_module: GraphModule, steps: Sequence[Step], borders: Borders):
        self._module, self._borders = graph_module, borders
        self._graph = graph_module.graph
        self._names: dict[str, object] = {}
        self._lines: list[str] = []
        self._last: dict[Node, Step | Node] = {}
        for step in [*steps, self._graph.output_node()]:
            for node in _inputs_of(step):
                self._last[node] = step
        self._shares = False
        self._borrows_on: set[torch.device] = set()
        given = [node for node in self._graph.nodes if node.op == "placeholder"]
        self._line(f"[{', '.join(map(_name, given))}] = arguments")
        self._line("arguments.clear()")
        self._drop(node for node in given if node not in self._last)

    def call_part(self, part: Part, compile_part: CompilePart) -> None:
        inputs = _inputs_of(part)
        outputs = [node for node in part.nodes if node in self._last]
        made = compile_part(_module_of(self._module, part, inputs, outputs), part)
        self._line(f"given = [{', '.join(map(_name, inputs))}]")
        self._drop(node for node in inputs if self._last[node] is part)
        self._line(f"[{', '.join(map(_name, outputs))}] = {self._constant(made)}(given)")

    def call_between(self, node: Node) -> None:
        if node.target is placement.moved_whole:
            call = self._moved_argument(node)
        elif node.target is placement.number_on:
            number = self._constant(placement.Number(node.args[1]))
            call = f"{number}({self._text(node.args[0])})"
        elif split.is_move(node) and _only_moves(node):
            (source,), target = node.args, node.meta["val"].device
            is_unwritten = self._borders.is_unwritten(node)
            self._shares = self._shares or (is_unwritten and target.type != "xla")
            values = [target, self._borders.owner(source), is_unwritten]
            arguments = ", ".join([self._text(source), *map(self._text, values)])
            call = f"{self._constant(_C.move)}({arguments})"
        else:
            arguments = [self._text(value) for value in node.args]
            arguments += [f"{key}={self._text(value)}" for key, value in node.kwargs.items()]
            call = f"{self._constant(node.target)}({', '.join(arguments)})"
        self._line(f"{_name(node)} = {call}")
        self._drop(source for source in _inputs_of(node) if self._last[source] is node)
        self._drop([node] if node not in self._last else [])

    def _moved_argument(self, node: Node) -> str:
        argument, device = node.args
        if argument.op == "get_attr":
            return self._constant(placement.moved_whole(attribute(argument), device))
        if not self._borders.may_borrow(node):
            return f"{self._constant(node.target)}({_name(argument)}, {self._constant(device)})"
        self._borrows_on.add(device)
        return f"{self._constant(placement.Borrowed(device))}({_name(argument)})"

    def finish(self) -> Callable[[list], object]:
        output = self._graph.output_node()
        if self._shares:
            protect = self._constant(_C.protect)
            for node in self._borders.given_away():
                self._line(f"{protect}({_name(node)})")
        if self._borrows_on:
            owned = self._constant(placement.owned)
            for node in self._borders.kept():
                self._line(f"{_name(node)} = {owned}({_name(node)})")
        self._line(f"return {self._text(tuple(output.args[0]))}")
        lines = self._lines
        if self._borrows_on:
            waits = [
                f"{self._constant(_C.synchronize)}({device.index})" for device in self._borrows_on
            ]
            # Until nothing reads what was borrowed.
            lines = ["try:", *_indented(lines), "finally:", *_indented(waits)]
        source = "\n".join(["def call(arguments):", *_indented(lines), ""])
        exec(compile(source, "<torch_pjrt driver>", "exec"), self._names)
        call = self._names["call"]
        call._boxed_call = True
        return call

    def _line(self, text: str) -> None:
        self._lines.append(text)

    def _drop(self, nodes: Iterable[Node]) -> None:
        names = list(map(_name, nodes))
        if names:
            self._line(f"del {', '.join(names)}")

    def _constant(self, value: object) -> str:
        name = f"constant_{len(self._names)}"
        self._names[name] = value
        return name

    def _text(self, value: object) -> str:
        """Source that makes an argument of a node."""
        if isinstance(value, Node):
            if value.op != "get_attr":
                return _name(value)
            return self._constant(attribute(value))
        if isinstance(value, (list, tuple)):
            parts = "".join(f"{self._text(part)}, " for part in value)
            return f"[{parts}]" if isinstance(value, list) else f"({parts})"
        if value is None or isinstance(value, (bool, int)):
            return repr(value)
        return self._constant(value)


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _name(node: Node) -> str:
    return f"value_{node.name}"


def _only_moves(node: Node) -> bool:
    """Whether a copy keeps dtype and layout, and waits."""
    options = dict(node.kwargs)
    same = options.pop("dtype", None) in (None, node.args[0].meta["val"].dtype)
    same = same and options.pop("layout", None) in (None, torch.strided)
    same = same and options.pop("memory_format", None) in (None, torch.preserve_format)
    options.pop("device")
    return same and not any(options.values())


def _inputs_of(step: Step | Node) -> list[Node]:
    """The values that a step reads and does not make itself, each once."""
    nodes = step.nodes if isinstance(step, Part) else [step]
    own = set(nodes)
    sources = [source for node in nodes for source in node.all_input_nodes]
    return [n for n in dict.fromkeys(sources) if n not in own and n.op != "get_attr"]


def _module_of(
    whole: GraphModule, part: Part, inputs: Sequence[Node], outputs: Sequence[Node]
) -> GraphModule:
    graph, copies = Graph(), {}
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)

    def copied(node: Node) -> Node:
        if node not in copies:
            copies[node] = graph.node_copy(node, copied)
        return copies[node]

    for node in part.nodes:
        copied(node)
    graph.output(tuple(copies[node] for node in outputs))
    return GraphModule(whole, graph)
