"""The environment variables that are no setting of `torch_pjrt.config`, in one table.

`tools/generate_docs` reads the table; each variable is read where it is used, and ignored where its
value is not understood: `warn_of_ignored` tells so at import.
"""

import os
import warnings
from collections.abc import Callable
from typing import NamedTuple


class Variable(NamedTuple):
    name: str
    default: str
    meaning: str
    expected: str = "anything"
    is_understood: Callable[[str], bool] = lambda value: True


def _is_whole_number(value: str, least: int, most: int) -> bool:
    return value.isascii() and value.isdigit() and least <= int(value) <= most


VARIABLES = (
    Variable(
        "TORCH_PJRT_PLUGIN",
        "the first installed CPU plugin, else the only plugin installed",
        "The PJRT plugin: a library's path or the name of an installed plugin. Read at import.",
    ),
    Variable(
        "TORCH_PJRT_OPTIONS",
        "none",
        "Create options for the plugin's client, as `name=value` separated by semicolons, for "
        "example `cpu_device_count=2`. Read at import.",
    ),
    Variable(
        "TORCH_PJRT_CACHE_DIR",
        "none: programs are kept in memory only",
        "Folder in which compiled programs are kept for later processes, where the plugin can "
        "serialise them. Read at import.",
    ),
    Variable(
        "TORCH_PJRT_TRANSFER_THREADS",
        "the usable cores, at most 8",
        "Threads that copy large tensors (1 to 256). Read at the first large copy.",
        "a whole number from 1 to 256",
        lambda value: _is_whole_number(value, 1, 256),
    ),
    Variable(
        "TORCH_PJRT_POOL_LIMIT",
        "an eighth of the machine's memory",
        "Bytes of host memory that the pool keeps for reuse. Read at the first use of the pool.",
        "a whole number of bytes",
        lambda value: _is_whole_number(value, 0, 2**64 - 1),
    ),
    Variable(
        "TORCH_PJRT_DUMP",
        "none",
        "Existing folder into which the StableHLO text of each new program is written. Read at "
        "each compilation.",
        "an existing folder",
        os.path.isdir,
    ),
    Variable(
        "TORCH_PJRT_WARN_FALLBACK",
        "not set",
        "When set, warns at the first run of each operator that runs on the CPU.",
    ),
)


def warn_of_ignored() -> None:
    """Warn of each variable that is set to what it cannot mean."""
    for variable in VARIABLES:
        value = os.environ.get(variable.name)
        if value is not None and not variable.is_understood(value):
            warnings.warn(
                f"read {variable.name}: it is ignored; got {value!r}, expected {variable.expected}",
                RuntimeWarning,
                stacklevel=2,
            )
