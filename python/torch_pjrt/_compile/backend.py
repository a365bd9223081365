"""The backend: AOTAutograd's graphs, recorded through the operators of lazy mode, and replayed."""

import operator
from collections.abc import Callable, Sequence

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx.graph import _BoxedCodeGen
from torch.utils.checkpoint import CheckpointPolicy

from .. import _C
from . import fallbacks, placement, replayable
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

    def compile_graph(
        graph: torch.fx.GraphModule, inputs: Sequence[object], results: int | None = None
    ) -> Callable[[list], object]:
        if device is not None:
            placement.move_to(graph, device, results)
        fallbacks.find(graph, allowed=chosen.fallback)
        return _call_of(graph, chosen)

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

    if not _needs_gradient(graph_module):
        try:
            return compile_joint(_refuse_to_partition, writes_inside=True)
        except _HasBackward:
            pass
    return compile_joint(_partition, writes_inside=False)


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


def _call_of(graph: torch.fx.GraphModule, options: Options) -> Callable[[list], object]:
    """The graph as a function that empties the list of its arguments, so that what it has read for
    the last time can be donated."""
    held = replayable.held_tensors(graph)
    graph.graph.set_codegen(_BoxedCodeGen())
    graph.recompile()
    record = graph.forward if options.fallback else fallbacks.refusing(graph.forward)
    return _C.CompiledGraph(record, held or (), held is not None)
