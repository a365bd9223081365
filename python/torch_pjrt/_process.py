"""What the process uses: plugin and options at import, and a clean end."""

import atexit
import os

from . import _C
from .discovery import Plugin, PluginNotFoundError, default_plugin

OPTIONS_VARIABLE = "TORCH_PJRT_OPTIONS"
CACHE_VARIABLE = "TORCH_PJRT_CACHE_DIR"


def choose_plugin(plugin: Plugin, options: dict) -> None:
    """Use this plugin with these create options; the client must not exist yet."""
    _C.configure(os.fspath(plugin.path), "", options, os.environ.get(CACHE_VARIABLE, ""))


def configure() -> None:
    """Take plugin, create options and cache folder from the environment."""
    try:
        options = _C.parse_options(os.environ.get(OPTIONS_VARIABLE, ""))
    except ValueError as error:
        raise ValueError(f"environment variable {OPTIONS_VARIABLE}: {error}") from None
    try:
        choose_plugin(default_plugin(), options)
    except PluginNotFoundError as error:
        # Importing must not fail: the first use of the device says this.
        _C.configure("", str(error), options, os.environ.get(CACHE_VARIABLE, ""))
    atexit.register(_C.shutdown)
