"""Writes a program of `torch.export` as StableHLO text, weights and a manifest."""

import os
from collections.abc import Iterator
from pathlib import Path

import safetensors.torch
import torch
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from .. import _C, metrics
from .._compile import placement, replayable
from .._compile.user_lines import in_words
from .manifest import PROGRAM, WEIGHTS, Argument, Given, Manifest, Number, Result, View

_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_RESULTS = {
    OutputKind.USER_OUTPUT: "output",
    OutputKind.BUFFER_MUTATION: "weight",
    OutputKind.PARAMETER_MUTATION: "weight",
    OutputKind.USER_INPUT_MUTATION: "input",
}


def export(program: torch.export.ExportedProgram, path: str | os.PathLike) -> None:
    """Write a program to a new folder: `program.mlir`, `weights.safetensors`, `manifest.json`.

    The program is what `torch.export.export(module, arguments)` returned. It is computed once on
    the current xla device, with zeros for its inputs. `torch_pjrt.load(path)` runs it.

    Raises TypeError for anything but an exported program, FileExistsError where there is something
    at `path`, and NotImplementedError for what one StableHLO program cannot hold: sizes that vary,
    random numbers, operators that run on the CPU.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeError(
            f"export a program: got {type(program).__name__}, expected an ExportedProgram; call "
            "torch.export.export(module, arguments) first"
        )
    folder = Path(path)
    if folder.exists():
        raise FileExistsError(f"export a program to {folder}: it exists; give a new path")
    functional = program.run_decompositions({})
    _refuse_varying_sizes(functional)
    weights = _weights(functional)
    arguments, given = _arguments(functional, weights)
    recorded = _record(functional, arguments, weights)
    outputs = functional.graph_signature.output_specs
    results = [
        _result(spec, shown) for spec, shown in zip(outputs, recorded["results"], strict=True)
    ]
    client = _C.client_info()
    version = client["attributes"].get("stablehlo_current_version", ())
    manifest = Manifest(
        stablehlo_version=".".join(map(str, version)) or "unknown",
        torch_version=torch.__version__,
        plugin=f"{client['platform']} {client['platform_version']}",
        arguments=tuple(arguments),
        given=tuple(given),
        parameters=tuple(recorded["parameters"]),
        numbers=recorded["numbers"],
        number_bytes=recorded["number_bytes"],
        roots=tuple(_dtypes_of_roots(results, recorded)),
        checked=tuple(recorded["checked"]),
        results=tuple(results),
        arguments_tree=pytree.treespec_dumps(functional.call_spec.in_spec),
        outputs_tree=pytree.treespec_dumps(functional.call_spec.out_spec),
    )
    folder.mkdir(parents=True)
    (folder / PROGRAM).write_text(recorded["text"])
    safetensors.torch.save_file(_apart(weights), folder / WEIGHTS)
    manifest.write(folder)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _refuse_varying_sizes(program: torch.export.ExportedProgram) -> None:
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        varies = isinstance(value, torch.SymInt) or (
            isinstance(value, torch.Tensor)
            and any(isinstance(n, torch.SymInt) for n in value.shape)
        )
        if varies:
            raise NotImplementedError(
                f"export a program: sizes of its input {node.name!r} vary; got "
                f"{getattr(value, 'shape', value)}, expected numbers; call torch.export.export "
                "without dynamic_shapes"
            )


def _weights(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Parameters, buffers and constants that the graph takes, by name."""
    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in _WEIGHTS:
            known = program.state_dict.get(spec.target)
            found[spec.target] = program.constants[spec.target] if known is None else known
    return {name: weight.detach() for name, weight in found.items()}


def _arguments(
    program: torch.export.ExportedProgram, weights: dict[str, torch.Tensor]
) -> tuple[list[Argument], list[Given]]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    arguments, given, position = [], [], 0
    for spec in program.graph_signature.input_specs:
        if spec.kind in _WEIGHTS:
            weight = weights[spec.target]
            arguments.append(Argument(spec.target, name_of(weight.dtype), tuple(weight.shape)))
            continue
        if spec.kind is not InputKind.USER_INPUT:
            raise NotImplementedError(
                f"export a program: its input {spec.arg.name!r} is a {spec.kind.name}; expected "
                "tensors and numbers"
            )
        if isinstance(spec.arg, TensorArgument):
            value = values[spec.arg.name]
            sizes = tuple(value.shape)
            arguments.append(Argument(spec.arg.name, name_of(value.dtype), sizes, position))
        else:
            given.append(Given(spec.arg.name, position, _number(spec.arg)))
        position += 1
    return arguments, given


def _number(argument: object) -> Number:
    if isinstance(argument, ConstantArgument) and isinstance(argument.value, Number):
        return argument.value
    raise NotImplementedError(
        f"export a program: it takes or returns {argument}; expected tensors, numbers, text or None"
    )


def _record(
    program: torch.export.ExportedProgram,
    arguments: list[Argument],
    weights: dict[str, torch.Tensor],
) -> dict:
    """What the graph, which is changed, does on xla, as `_C.record_program` describes it."""
    module = torch.fx.GraphModule(program.graph_module, program.graph)
    device = torch.device("xla", _C.current_device())
    placement.make_on(module, device)
    # Strides are not always those that the graph was traced with. Results share nothing anyway.
    for node in module.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default
    # Constants of the call take no part in it.
    for node in module.graph.find_nodes(op="placeholder"):
        if not isinstance(node.meta.get("val"), torch.Tensor):
            module.graph.erase_node(node)
    module.recompile()
    tensors = [
        torch.zeros(argument.sizes, dtype=getattr(torch, argument.dtype), device=device)
        if argument.position is not None
        else weights[argument.name].to(device).clone(memory_format=torch.contiguous_format)
        for argument in arguments
    ] or [torch.zeros((), device=device)]  # says where, and is not read

    shared = {tensor.untyped_storage()._cdata for tensor in tensors}

    def own(result: object) -> object:
        """A result that shares no memory with an argument."""
        if isinstance(result, torch.Tensor) and result.untyped_storage()._cdata in shared:
            return result.clone()
        return result

    def call(values: list[torch.Tensor]) -> tuple:
        with torch.no_grad():
            results = tuple(map(own, module(*values[: len(arguments)])))
        _C.execute_all()
        return results

    _C.execute_all()
    before = metrics.fallbacks()
    recorded = _C.record_program(call, tensors)
    ran = {name for name, count in metrics.fallbacks().items() if count != before.get(name, 0)}
    if ran:
        raise NotImplementedError(
            f"export a program: {', '.join(sorted(ran))} ran on the CPU, for arguments that device "
            "xla has no lowering for; write it with other operators"
        )
    if recorded is None:
        raise NotImplementedError(
            "export a program: it is not one program on the device; got "
            f"{_more_than_computing(module)}, expected one computation; write it without them"
        )
    if recorded["is_random"]:
        raise NotImplementedError(
            "export a program: it draws random numbers, which would be the same at each call; "
            "call module.eval(), or give them as an input"
        )
    return recorded


def _more_than_computing(module: torch.fx.GraphModule) -> str:
    for node in module.graph.nodes:
        if node.op == "call_function" and not (
            replayable.is_size(node) or replayable.computes(node)
        ):
            return f"{node.target}{in_words(node)}, which reads a value on the host"
    return "operators that read a value on the host or compute nothing"


def _result(spec: OutputSpec, shown: dict | None) -> Result:
    kind = _RESULTS.get(spec.kind)
    if kind is None:
        raise NotImplementedError(
            f"export a program: its output {spec.arg.name!r} is a {spec.kind.name}; expected "
            "results and new contents of buffers and inputs"
        )
    if shown is None:
        return Result(kind, spec.target, value=_number(spec.arg))
    return Result(kind, spec.target, View(**shown | {"dtype": name_of(shown["dtype"])}))


def _dtypes_of_roots(results: list[Result], recorded: dict) -> Iterator[str | None]:
    for root in range(recorded["roots"]):
        if root == recorded["checks"]:
            yield None
        else:
            yield next(r.view.dtype for r in results if r.view and r.view.root == root)


def _apart(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous tensors that share no storage, as the format asks, which lacks complex128."""

    def apart(weight: torch.Tensor) -> torch.Tensor:
        weight = weight.to("cpu").clone(memory_format=torch.contiguous_format)
        return torch.view_as_real(weight) if weight.dtype == torch.complex128 else weight

    return {name: apart(weight) for name, weight in weights.items()}
