"""PyTorch tensors on any PJRT device, under PyTorch's device name "xla".

Importing this module (or `torch`, which loads it by itself) is enough: tensors, modules and
optimizers then take the device `"xla"`. What is recorded runs when it is read, at
`optimizer.step()` and at `sync()`.
"""


def _autoload() -> None:
    """Entry point of PyTorch's backend autoload: importing the package does all the work."""


# After `_autoload`, since `import torch` may load this package by that entry point.
import torch as _torch  # noqa: E402

from . import (  # noqa: E402
    _C,
    _copying,
    _decompositions,
    _environment,
    _fake_tensors,
    _modules,
    _optimizers,
    _process,
    _seeds,
    _zero_copy,
    metrics,
    transfer,
)
from . import xla as _xla  # noqa: E402
from ._compile import registration as _registration  # noqa: E402
from ._config import config  # noqa: E402
from ._operators import operators  # noqa: E402
from ._zero_copy import from_dlpack, zero_copy  # noqa: E402
from .tracing import trace  # noqa: E402

__version__ = "0.1.0"
__all__ = [
    "config",
    "explain",
    "export",
    "from_dlpack",
    "load",
    "metrics",
    "operators",
    "sync",
    "trace",
    "transfer",
    "zero_copy",
]


def sync(device: "_torch.device | int | str | None" = None) -> None:
    """Execute what is recorded and wait until the device has done it.

    Raises the IndexError of an index check that failed on the device. `device`: an xla device or
    its index; without one, every device.
    """
    if device is None:
        _C.synchronize_all()
    else:
        _xla.synchronize(device)


def explain(function, *arguments, options: "dict[str, object] | None" = None, **keywords):
    """Compile and call a function once, with torch.compile's backend pjrt, and say what came of it.

    Returns graphs, graph breaks, devices, programs, transfers, donated bytes, fallbacks and compile
    seconds of that call, as attributes and as text. `options` are the backend's.
    """
    from ._compile import explanation

    return explanation.explain(function, arguments, keywords, options)


def export(program: "_torch.export.ExportedProgram", path) -> None:
    """Write a program of `torch.export` to a new folder: StableHLO text, weights, manifest."""
    from ._program import writing

    writing.export(program, path)


def load(path, device: "_torch.device | str" = "xla"):
    """The program that `export` wrote to a folder, compiled: call it as the exported module."""
    from ._program import loaded

    return loaded.load(path, device)


_environment.warn_of_ignored()
_process.configure()
_torch._register_device_module("xla", _xla)
_seeds.install()
_copying.install()
_modules.install()
_optimizers.install()
_zero_copy.install()
_fake_tensors.install()
_decompositions.install()
_registration.install()
