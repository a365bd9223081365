"""The environment variables that are no setting of `torch_pjrt.config`, in one table.

Data only, read by `tools/generate_docs`; each variable is read where it is used.
"""

from typing import NamedTuple


class Variable(NamedTuple):
    name: str
    default: str
    meaning: str


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
    ),
    Variable(
        "TORCH_PJRT_POOL_LIMIT",
        "an eighth of the machine's memory",
        "Bytes of host memory that the pool keeps for reuse. Read at the first use of the pool.",
    ),
    Variable(
        "TORCH_PJRT_DUMP",
        "none",
        "Existing folder into which the StableHLO text of each new program is written. Read at "
        "each compilation.",
    ),
    Variable(
        "TORCH_PJRT_WARN_FALLBACK",
        "not set",
        "When set, warns at the first run of each operator that runs on the CPU.",
    ),
)
