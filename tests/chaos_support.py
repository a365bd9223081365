"""The chaos plugin for Python tests: where it is, its environment, and its control functions."""

import ctypes
import importlib.util
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = str(Path(__file__).parent)  # for programs that import this
LIBRARY = Path(
    os.environ.get("PJRT_CHAOS_LIBRARY", ROOT / "build" / "plugins" / "chaos" / "libpjrt_chaos.so")
)


def pjrt_header() -> Path:
    """The header that the build takes by default."""
    package = importlib.util.find_spec("xla_plugins.xla_cpu_pjrt")
    return Path(package.submodule_search_locations[0]) / "include" / "pjrt_c_api.h"


def environment(options: str = "", plugin: str | None = None) -> dict[str, str]:
    """Environment of a program whose xla device is the chaos plugin around `plugin`."""
    from torch_pjrt import discovery

    wrapped = plugin or os.environ.get("PJRT_CHAOS_PLUGIN") or discovery.default_plugin().path
    return {
        "PJRT_CHAOS_LIBRARY": str(LIBRARY),
        "PJRT_CHAOS_PLUGIN": str(wrapped),
        "PJRT_CHAOS_OPTIONS": options,
        "TORCH_PJRT_PLUGIN": str(LIBRARY),
    }


class Chaos:
    """The control functions of the loaded library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.pjrt_chaos_configure.restype = ctypes.c_char_p
        self._library.pjrt_chaos_count.restype = ctypes.c_int64
        self._library.pjrt_chaos_functions.restype = ctypes.c_char_p

    def configure(self, options: str = "") -> None:
        problem = self._library.pjrt_chaos_configure(options.encode())
        if problem is not None:
            raise ValueError(problem.decode())

    def count(self, name: str) -> int:
        return self._library.pjrt_chaos_count(name.encode())

    def functions(self) -> list[str]:
        return self._library.pjrt_chaos_functions().decode().split()

    def calls(self) -> dict[str, int]:
        """The functions that were called since `configure`, and how often."""
        return {name: calls for name in self.functions() if (calls := self.count(name))}
