"""What a program's folder says of itself: its arguments and results, in order.

The folder holds
    manifest.json        this
    program.mlir         the StableHLO module, as text
    weights.safetensors  parameters, buffers and constants, by name
"""

import base64
import json
from dataclasses import asdict, dataclass
from pathlib import Path

FORMAT, VERSION = "torch-pjrt program", 1
MANIFEST, PROGRAM, WEIGHTS = "manifest.json", "program.mlir", "weights.safetensors"


Number = bool | int | float | str | None


@dataclass(frozen=True)
class Argument:
    """A tensor that the exported graph takes: `name` is a weight's, or an input's."""

    name: str
    dtype: str  # torch's, as "float32"
    sizes: tuple[int, ...]
    position: int | None = None  # of an input: among the flattened arguments of a call


@dataclass(frozen=True)
class Given:
    """An argument of a call that is no tensor, and has to be the same at each call."""

    name: str
    position: int
    value: Number


@dataclass(frozen=True)
class View:
    """What a result shows: contents of the program's result `root`, or of `argument`; of neither
    where its contents are undefined."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    offset: int
    root: int | None = None
    argument: int | None = None


@dataclass(frozen=True)
class Result:
    """What becomes of one output of the exported graph."""

    kind: str  # "output", "weight" (new contents of one) or "input" (the same)
    target: str | None = None  # the name of the weight or input
    view: View | None = None
    value: Number = None  # of an output that is no tensor


@dataclass(frozen=True)
class Manifest:
    stablehlo_version: str  # of the exporter's plugin
    torch_version: str
    plugin: str
    arguments: tuple[Argument, ...]
    given: tuple[Given, ...]
    parameters: tuple[int, ...]  # the arguments that the program reads, in its order
    numbers: bytes  # the packed host numbers: the program's last parameter, where not empty
    number_bytes: int  # of each
    roots: tuple[str | None, ...]  # the dtype of each of its results; None: tells of checks
    checked: tuple[str, ...]  # the operators that it tells of
    results: tuple[Result, ...]
    arguments_tree: str  # torch.utils._pytree's JSON of (args, kwargs)
    outputs_tree: str

    def write(self, folder: Path) -> None:
        values = {"format": FORMAT, "version": VERSION} | asdict(self)
        values["numbers"] = base64.b64encode(self.numbers).decode()
        (folder / MANIFEST).write_text(json.dumps(values, indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Raises FileNotFoundError where there is none, and ValueError for another format."""
        values = json.loads((folder / MANIFEST).read_text())
        found = values.pop("format", None), values.pop("version", None)
        if found != (FORMAT, VERSION):
            raise ValueError(
                f"load the program in {folder}: its manifest is of another format; got "
                f"{found[0]!r} version {found[1]!r}, expected {FORMAT!r} version {VERSION}; "
                "export it with this version of torch_pjrt"
            )
        values["numbers"] = base64.b64decode(values["numbers"])
        values["arguments"] = tuple(_frozen(Argument, a) for a in values["arguments"])
        values["given"] = tuple(_frozen(Given, a) for a in values["given"])
        values["results"] = tuple(
            _frozen(Result, r | {"view": _frozen(View, r["view"])} if r["view"] else r)
            for r in values["results"]
        )
        return _frozen(cls, values)


def _frozen(kind: type, values: dict):
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
