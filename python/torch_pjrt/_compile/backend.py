"""The backend: AOTAutograd's graphs, recorded through the operators of lazy mode, and replayed."""

import functools
import operator
from collections.abc import Callable, Sequence

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource, ImportSource
from torch.fx.graph import _BoxedCodeGen
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import CheckpointPolicy

from .. import _C
from . import driver, fallbacks, native, placement, replayable, split, user_lines
from .options import Options


def pjrt(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    options: dict[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., object]:
    """Compile a function's graph; called by `torch.compile(function, backend="pjrt")`.

    The options are those of `options.Options`. Operators run on the devices of their tensors, so
    a function may move between devices as it does without torch.compile.
    """
    chosen = Options.read(options, mode)
    device = chosen.device
    if device is not None and placement.uses_xla(graph_module, example_inputs):
        device = None

    current = torch.device("xla", torch.xla.current_device())
    _guard_current_device()
    ours = driver.Ours()

    def compile_graph(
        graph: torch.fx.GraphModule, inputs: Sequence[object], results: int | None = None
    ) -> Callable[[list], object]:
        placement.give_index(graph, current)
        if device is not None:
            placement.move_to(graph, device, results)
        fallbacks.find(graph, allowed=chosen.fallback)
        return _call_of(graph, chosen, results, ours)

    def compile_forward(graph: torch.fx.GraphModule, inputs: Sequence[object]):
        # What follows the results is kept for backward, and may stay where it is.
        metadata = torch._guards.TracingContext.get().fw_metadata
        return compile_graph(graph, inputs, metadata.num_forward_returns)

    def compile_joint(partition: Callable, writes_inside: bool) -> Callable[..., object]:
        return aot_autograd(
            fw_compiler=compile_forward,
            bw_compiler=compile_graph,
            inference_compiler=compile_graph,
            partition_fn=partition,
            keep_inference_input_mutations=writes_inside,
        )(graph_module, example_inputs)

    def compile_all() -> Callable[..., object]:
        if not _needs_gradient(graph_module):
            try:
                return compile_joint(_refuse_to_partition, writes_inside=True)
            except _HasBackward:
                pass
        return compile_joint(_partition, writes_inside=False)

    return _remembering_zero_copy(compile_all()) if _moves(graph_module) else compile_all()


def _guard_current_device() -> None:
    """Compiled again where another xla device is the current one: `.to("xla")` is traced as a move
    to that device."""
    if torch.xla.device_count() == 1 or torch._guards.TracingContext.try_get() is None:
        return
    module = AttrSource(ImportSource("torch"), "xla")
    current = CallFunctionNoArgsSource(AttrSource(module, "current_device"))
    install_guard(current.make_guard(GuardBuilder.EQUALS_MATCH))


def _moves(graph_module: torch.fx.GraphModule) -> bool:
    values = [node.meta.get("example_value") for node in graph_module.graph.nodes]
    return len({tensor.device for tensor in replayable.tensors(values)}) > 1


def _remembering_zero_copy(call: Callable[..., object]) -> Callable[..., object]:
    """Gradients come back without a copy where the function was called so."""

    @functools.wraps(call)
    def remembering(*arguments):
        results = call(*arguments)
        if _C.zero_copy_wanted():
            for result in replayable.tensors(results):
                _C.remember_zero_copy(result)
        return results

    return remembering


def _partition(joint: torch.fx.GraphModule, *arguments, **options):
    """PyTorch's, except that a checkpoint's random numbers are kept, not drawn again: PyTorch can
    replay generators of devices that it knows, and refuses xla's."""
    for node in joint.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            parts = [user for user in node.users if user.target is operator.getitem]
            for kept in (node, *parts):
                if "recompute" in kept.meta:
                    kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return min_cut_rematerialization_partition(joint, *arguments, **options)


class _HasBackward(Exception):
    pass


def _refuse_to_partition(*_, **__):
    """Where writes to arguments are a part of the graph, PyTorch's partitioners let backward
    compute from the argument, after the write, what forward computed before it."""
    raise _HasBackward


def _needs_gradient(graph_module: torch.fx.GraphModule) -> bool:
    """Whether a value that Dynamo's graph computes has a gradient; parameters that an optimizer
    writes to are not computed."""
    given = [
        node.meta.get("example_value")
        for node in graph_module.graph.nodes
        if node.op in ("placeholder", "get_attr")
    ]
    leaves = {id(value) for value in given if isinstance(value, torch.Tensor) and value.is_leaf}

    def has_gradient(value: object) -> bool:
        if isinstance(value, (list, tuple)):
            return any(map(has_gradient, value))
        return isinstance(value, torch.Tensor) and value.requires_grad and id(value) not in leaves

    return any(
        has_gradient(node.meta.get("example_value"))
        for node in graph_module.graph.nodes
        if node.op not in ("placeholder", "get_attr", "output")
    )


def _call_of(
    graph: torch.fx.GraphModule,
    options: Options,
    results: int | None = None,
    ours: driver.Ours | None = None,
) -> Callable[[list], object]:
    """The graph as a function that empties the list of its arguments, so that what it has read for
    the last time can be donated. Parameters as of `driver.drive`."""
    # Constants are real; what traces the graph while this is called is not.
    with _disable_current_modes(), torch.no_grad():
        try:
            if not split.upload_numbers(graph.graph):
                held = replayable.held_tensors(graph)
                if held is not None and not any(map(fallbacks.falls_back, graph.graph.nodes)):
                    return _C.CompiledGraph(_recorder(graph, options), held, True)
            split.place_constants(graph)
            steps = split.split(graph.graph, options.inductor)
            part_of = functools.partial(_part_of, options)
            return driver.drive(graph, steps, part_of, results, ours)
        except split.CannotSplit:
            return _whole(graph, options)


def _part_of(
    options: Options, graph: torch.fx.GraphModule, part: split.Part
) -> Callable[[list], object]:
    if isinstance(part.place, torch.device):
        return _whole(graph, options)
    if options.inductor and part.place == split.NATIVE:
        return native.compile_with_inductor(graph)
    return _recorder(graph, options)


def _whole(graph: torch.fx.GraphModule, options: Options) -> Callable[[list], object]:
    """Records all operators of the graph, and replays that where it can."""
    held = replayable.held_tensors(graph)
    return _C.CompiledGraph(_recorder(graph, options), held or (), held is not None)


def _recorder(graph: torch.fx.GraphModule, options: Options) -> Callable[[list], object]:
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()
    call = user_lines.naming(graph)
    return call if options.fallback else fallbacks.refusing(call)
