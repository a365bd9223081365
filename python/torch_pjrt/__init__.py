"""PyTorch tensors on any PJRT device, under the device name "xla"."""

import os as _os

import torch as _torch

from . import _C
from .discovery import PluginNotFoundError as _PluginNotFoundError
from .discovery import default_plugin as _default_plugin

__version__ = "0.1.0"


def _configure() -> None:
    try:
        path = str(_default_plugin().path)
    except _PluginNotFoundError:
        path = ""  # importing must not fail; the first use of the device says what is missing
    options = _C.parse_options(_os.environ.get("TORCH_PJRT_OPTIONS", ""))
    _C.configure(path, options, _os.environ.get("TORCH_PJRT_CACHE_DIR", ""))


def sync() -> None:
    """Execute what is recorded on every device and wait until it is done."""
    _C.synchronize_all()


def _autoload() -> None:
    """Entry point of PyTorch's backend autoload; importing the package does the work."""


_configure()
_C.register_variants()
