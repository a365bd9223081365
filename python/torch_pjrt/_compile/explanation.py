"""`torch_pjrt.explain`: what torch.compile makes of a function, from one call of it."""

import dataclasses
from collections.abc import Callable

import torch
from torch._dynamo.backends.debugging import ExplainWithBackend

from .. import _C, metrics
from .backend import pjrt


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Figures of the first call. `operators` are those of Dynamo's graphs, `devices` where their
    tensors are; `breaks` say why a graph ended, with the user's line. `programs` were compiled in
    `compile_seconds`, and `executions` run. `fallbacks` maps operators that ran on the
    CPU to how often."""

    graphs: int
    operators: int
    breaks: tuple[str, ...]
    devices: tuple[str, ...]
    programs: int
    compile_seconds: float
    executions: int
    copies_to_device: int
    bytes_to_device: int
    copies_to_host: int
    bytes_to_host: int
    donated_bytes: int
    fallbacks: dict[str, int]

    def __str__(self) -> str:
        lines = []
        for name, value in dataclasses.asdict(self).items():
            if isinstance(value, dict):
                value = ", ".join(f"{key}: {count}" for key, count in value.items())
            elif isinstance(value, tuple):
                value = "\n                  ".join(value)
            elif isinstance(value, float):
                value = f"{value:.3f}"
            lines.append(f"{name.replace('_', ' '):<17} {value if value != '' else 'none'}")
        return "\n".join(lines)


# Field of the explanation: name of the figure.
_FIGURES = {
    "programs": "compile.programs",
    "compile_seconds": "compile.seconds",
    "executions": "execute.calls",
    "copies_to_device": "transfer.host_to_device.calls",
    "bytes_to_device": "transfer.host_to_device.bytes",
    "copies_to_host": "transfer.device_to_host.calls",
    "bytes_to_host": "transfer.device_to_host.bytes",
    "donated_bytes": "execute.donated_bytes",
}


def explain(
    function: Callable,
    arguments: tuple,
    keywords: dict[str, object],
    options: dict[str, object] | None,
) -> Explanation:
    def compile_graph(graph, example_inputs):
        return pjrt(graph, example_inputs, options=options)

    recorder = ExplainWithBackend(compile_graph)
    _C.synchronize_all()
    figures, fallbacks = metrics.snapshot(), metrics.fallbacks()
    torch.compile(function, backend=recorder)(*arguments, **keywords)
    _C.synchronize_all()
    now = metrics.snapshot()
    return Explanation(
        graphs=len(recorder.graphs),
        operators=recorder.op_count,
        breaks=tuple(_text_of(reason) for reason in recorder.break_reasons if reason.graph_break),
        devices=tuple(sorted({device for graph in recorder.graphs for device in _devices(graph)})),
        **{field: now.get(name, 0) - figures.get(name, 0) for field, name in _FIGURES.items()},
        fallbacks={
            name: count - fallbacks.get(name, 0)
            for name, count in metrics.fallbacks().items()
            if count != fallbacks.get(name, 0)
        },
    )


def _text_of(reason) -> str:
    lines = [line.strip() for line in reason.reason.splitlines() if line.strip()]
    place = reason.user_stack[-1] if reason.user_stack else None
    where = f" ({place.filename}:{place.lineno}, in {place.name})" if place else ""
    return (lines[0] if lines else "graph break") + where


def _devices(graph: torch.fx.GraphModule) -> set[str]:
    values = [node.meta.get("example_value") for node in graph.graph.nodes]
    return {str(value.device) for value in values if isinstance(value, torch.Tensor)}
