"""Runs an exported program, without PyTorch's graph of it."""

import os
from pathlib import Path

import safetensors.torch
import torch
from torch.utils import _pytree as pytree

from .. import _C
from .manifest import PROGRAM, WEIGHTS, Argument, Manifest, Number, View


def load(path: str | os.PathLike, device: torch.device | str = "xla") -> "LoadedProgram":
    """The program that `torch_pjrt.export` wrote to `path`, compiled for an xla device.

    Raises FileNotFoundError where a part is missing, ValueError for a manifest of another version,
    and RuntimeError where the device's compiler refuses the program.
    """
    device = torch.device(device)
    if device.type != "xla":
        raise ValueError(f"load a program: got device {str(device)!r}, expected an xla device")
    if device.index is None:
        device = torch.device("xla", _C.current_device())
    return LoadedProgram(Path(path), device)


class LoadedProgram:
    """A program on a device; call it with the arguments of the exported module.

    Tensors that are elsewhere are copied to the device; results are there, and have no gradient.
    Buffers that the module writes are written in `weights`, and inputs that it writes in place.
    Different programs may run on several threads; calls of one that writes must take turns.
    """

    def __init__(self, folder: Path, device: torch.device):
        manifest = Manifest.read(folder)
        self._manifest, self._folder, self._device = manifest, folder, device
        self._tree = pytree.treespec_loads(manifest.arguments_tree)
        self._outputs = pytree.treespec_loads(manifest.outputs_tree)
        self._weights = safetensors.torch.load_file(folder / WEIGHTS)
        for argument in manifest.arguments:
            if argument.dtype == "complex128" and argument.name in self._weights:
                whole = self._weights[argument.name]  # written as pairs of float64
                self._weights[argument.name] = torch.view_as_complex(whole)
        self._check_weights()
        self._weights = {name: weight.to(device) for name, weight in self._weights.items()}
        self._program = _C.LoadedProgram(
            device,
            text=(folder / PROGRAM).read_text(),
            numbers=manifest.numbers,
            number_bytes=manifest.number_bytes,
            results=[name and getattr(torch, name) for name in manifest.roots],
            checked=list(manifest.checked),
        )

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """Parameters, buffers and constants on the device, by name; may be written."""
        return self._weights

    @property
    def device(self) -> torch.device:
        return self._device

    def __repr__(self) -> str:
        inputs = [a for a in self._manifest.arguments if a.position is not None]
        shown = ", ".join(f"{a.name}: {a.dtype}{list(a.sizes)}" for a in inputs)
        return f"LoadedProgram({str(self._folder)!r}, device='{self._device}', inputs=({shown}))"

    def __call__(self, *args, **kwargs):
        """What the exported module returns.

        Raises TypeError for arguments of another structure, dtype or kind than the exported ones,
        ValueError for other sizes or numbers, and RuntimeError for a tensor that requires a
        gradient, unless gradients are off.
        """
        values = self._flattened(args, kwargs)
        for given in self._manifest.given:
            _check_number(given.name, values[given.position], given.value)
        inputs = {}
        arguments = []
        for argument in self._manifest.arguments:
            if argument.position is None:
                arguments.append(self._weights[argument.name])
                continue
            value = values[argument.position]
            _check_tensor(argument, value)
            inputs[argument.name] = value
            arguments.append(value.detach().to(self._device))
        with torch.no_grad():
            return self._run(arguments, inputs)

    def _run(self, arguments: list[torch.Tensor], inputs: dict[str, torch.Tensor]):
        arguments = [argument.contiguous() for argument in arguments]
        roots = self._program.run([arguments[i] for i in self._manifest.parameters])
        found = [
            result.value if result.view is None else self._shown(result.view, roots, arguments)
            for result in self._manifest.results
        ]
        outputs = []
        for result, value in zip(self._manifest.results, found, strict=True):
            if result.kind == "output":
                outputs.append(value)
            elif result.kind == "weight":
                self._weights[result.target].copy_(value)
            else:
                inputs[result.target].copy_(value)
        return pytree.tree_unflatten(outputs, self._outputs)

    def _shown(
        self, view: View, roots: list[torch.Tensor], arguments: list[torch.Tensor]
    ) -> torch.Tensor:
        if view.root is not None:
            whole = roots[view.root]
        elif view.argument is not None:
            # A clone: what a result shares with an argument is the exported module's own affair.
            whole = arguments[view.argument].clone()
        else:
            return torch.empty_strided(
                view.sizes, view.strides, dtype=getattr(torch, view.dtype), device=self._device
            )
        dtype = getattr(torch, view.dtype)
        if whole.dtype != dtype:
            whole = whole.flatten().view(dtype)
        if (whole.shape, whole.stride(), 0) == (view.sizes, view.strides, view.offset):
            return whole
        return whole.as_strided(view.sizes, view.strides, view.offset)

    def _flattened(self, args: tuple, kwargs: dict) -> list:
        values, tree = pytree.tree_flatten((args, kwargs))
        if tree != self._tree:
            raise TypeError(
                f"call the program in {self._folder}: its arguments have another structure; got "
                f"{tree}, expected {self._tree}"
            )
        return values

    def _check_weights(self) -> None:
        for argument in self._manifest.arguments:
            if argument.position is not None:
                continue
            weight = self._weights.get(argument.name)
            found = None if weight is None else (str(weight.dtype), tuple(weight.shape))
            if found != (f"torch.{argument.dtype}", argument.sizes):
                raise ValueError(
                    f"load the program in {self._folder}: {WEIGHTS} does not fit the manifest; got "
                    f"{found} for {argument.name!r}, expected {argument.dtype} "
                    f"{list(argument.sizes)}; export it again"
                )


def _check_number(name: str, got: object, expected: Number) -> None:
    asked = f"call a loaded program: {name} is a constant of it"
    if type(got) is not type(expected):
        raise TypeError(
            f"{asked}: got {type(got).__name__}, expected {type(expected).__name__}; export a "
            "program for each"
        )
    if got != expected and not (got != got and expected != expected):  # NaN is the same, too
        raise ValueError(
            f"{asked}: got {got!r}, expected {expected!r}; export a program for each value"
        )


def _check_tensor(argument: Argument, value: object) -> None:
    asked = f"call a loaded program with {argument.name!r}"
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{asked}: got {type(value).__name__}, expected a tensor")
    if value.dtype != getattr(torch, argument.dtype):
        raise TypeError(f"{asked}: got {value.dtype}, expected torch.{argument.dtype}")
    if tuple(value.shape) != argument.sizes:
        raise ValueError(
            f"{asked}: got sizes {list(value.shape)}, expected {list(argument.sizes)}; export a "
            "program for each"
        )
    if value.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            f"{asked}: it requires a gradient, and a loaded program has none; detach it, or call "
            "within torch.no_grad()"
        )
