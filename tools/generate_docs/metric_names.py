"""The names of all figures, found in the C++ sources, and what each one means."""

import re
from pathlib import Path

# A name that goes on with what the code appends is a family; here it ends in an asterisk.
MEANINGS = {
    "accelerator.host_waits": "waits of the host, as an accelerator's streams cannot be ordered",
    "compile.cache_hits": "programs found in the memory cache",
    "compile.disk_errors": "entries of the disk cache that could not be read or written",
    "compile.disk_hits": "programs loaded from the disk cache instead of compiled",
    "compile.dropped": "programs dropped from memory, as there were more than the limit",
    "compile.programs": "programs compiled",
    "compile.seconds": "time in which programs were compiled or loaded and compiled",
    "dlpack.copied.asked": "arrays copied on their way by DLPack as copy=True asked",
    "dlpack.copied.device": "DLPack imports copied: the device does not use the array's memory",
    "dlpack.copied.misaligned": "DLPack imports copied: not aligned to 64 bytes",
    "dlpack.copied.view": "DLPack imports copied: large gaps or negative strides",
    "dlpack.exported": "device arrays shared with others by DLPack",
    "dlpack.imported": "arrays of others shared with a device by DLPack",
    "dlpack.unshared": "buffers copied on the device, so that a DLPack export is one tensor's own",
    "emit.seconds": "time in which programs' StableHLO text was written",
    "execute.calls": "programs executed",
    "execute.donated_bytes": "bytes of inputs whose memory a program could reuse",
    "execute.failures": "executions that failed; their error comes at the next read of a result",
    "execute.limit_cuts": "executions because `graph_limit` operators were pending",
    "execute.operators": "operators executed, over all programs",
    "execute.recovered": "failed executions that were computed later; the next read raises it",
    "execute.replays": "calls of compiled graphs that were launched without recording them",
    "execute.seconds": "time in which executions were prepared and launched",
    "export.copied.alias": "`.to()` copied: others may write the memory, through DLPack",
    "export.copied.device": "`.to()` copied: it is not the memory of the device that is asked for",
    "export.copied.dtype": "`.to()` copied: the device holds the dtype in fewer bits",
    "export.copied.layout": "`.to()` copied: another memory format, or a conjugate or negative",
    "export.copied.pending": "`.cpu()` copied: not computed yet, and non_blocking=True is asked",
    "export.copied.view": "`.to()` copied: gaps, or less than half of the buffer",
    "export.live": "storages elsewhere that share or took over a device buffer's memory now",
    "export.materialised": "copies because a tensor that shared device memory was written",
    "export.written_in_place": "writes without one, as nothing else could read the memory",
    "fallback.*": "runs of an operator on the CPU, by operator",
    "hash.seconds": "time in which what is to run was put in order and hashed",
    "import.copied.device": "not shared: the device does not compute in the tensor's memory",
    "import.copied.misaligned": "not shared under zero_copy: not aligned to 64 bytes",
    "import.copied.storage": "not shared under zero_copy: PyTorch cannot watch the memory",
    "import.copied.view": "not shared under zero_copy: gaps, or less than half of the storage",
    "import.materialised": "copies because a tensor whose memory a device shares was written",
    "pjrt.compile": "time in the plugin's compiler",
    "pjrt.deserialize": "time in which the plugin loaded serialised programs",
    "pjrt.destructor_errors": "errors in destructors, where nothing can be raised",
    "pjrt.live_buffers": "device buffers that exist now",
    "pjrt.repeated_probes": "questions about the plugin that failed once and were answered then",
    "pool.allocations": "host memory blocks handed out, since the process began",
    "pool.bytes_cached": "bytes of host memory that wait for reuse now",
    "pool.bytes_in_use": "bytes of host memory that are handed out now",
    "pool.bytes_mapped": "bytes of host memory that the device's driver has mapped now",
    "pool.mapping_errors": "blocks that the device's driver could not map or unmap",
    "pool.peak_bytes_in_use": "most bytes of host memory handed out at one time",
    "pool.reused": "host memory blocks that were used before, of those handed out",
    "shutdown.errors": "executions that failed while the process ended",
    "trace.dropped": "events that a trace had no room for",
    "transfer.cast.*": "tensors cast on the host on their way, by dtypes (`Float_to_Double`)",
    "transfer.cast.bytes": "bytes of the tensors cast on the host, before the cast",
    "transfer.cast.calls": "tensors cast on the host on their way to a device",
    "transfer.device_to_device": "copies between devices",
    "transfer.device_to_device.bounced": "of these, those that went through host memory",
    "transfer.device_to_host": "copies from a device to the host",
    "transfer.device_to_host.adopted": "of these, none made: the host uses the device's memory",
    "transfer.device_to_host.direct": "of these, read straight from the device's host memory",
    "transfer.device_to_host.plugin": "of these, made by the plugin",
    "transfer.device_to_host.unpacked": "of these, spread over gaps or strides of the target",
    "transfer.numbers_read": "single numbers read by the host, as by `.item()`",
    "transfer.from_accelerator": "tensors of an accelerator brought to a device in its memory",
    "transfer.from_accelerator.adopted": "of these, shared without a copy",
    "transfer.host_to_device": "copies from the host to a device",
    "transfer.host_to_device.adopted": "of these, none made: the device uses the host's memory",
    "transfer.host_to_device.batched": "of these, small ones of a batch, together in pool memory",
    "transfer.host_to_device.block": "of these, handed over as a whole block of pool memory",
    "transfer.host_to_device.cast": "of these, cast on the host into the memory that went",
    "transfer.host_to_device.chunked": "of these, in pieces while the next is filled",
    "transfer.host_to_device.flat": "of these, dense and copied into pool memory as they lie",
    "transfer.host_to_device.held": "of these, read by the device while the source is kept",
    "transfer.host_to_device.packed": "of these, gathered from gaps or strides",
    "transfer.host_to_device.small": "of these, small enough to be copied within the call",
    "transfer.host_to_device.staged": "of these, dense and copied for the device to read",
    "transfer.in_flight_bytes": "bytes of host memory that copies on their way hold now",
    "transfer.in_flight_wait_seconds": "time in which copies waited for `transfer_limit`",
    "transfer.in_flight_waits": "copies that waited for `transfer_limit`",
    "transfer.to_accelerator": "tensors brought to the accelerator in whose memory they are",
    "transfer.to_accelerator.adopted": "of these, shared without a copy",
}

_FIGURE = re.compile(r'\b(counter|gauge|timer)\(\s*(?:c10::str\(\s*)?"([^"]+)"\s*([+,)])')
_PAIR = re.compile(r'\bCopyFigures\s+\w+\s*[({]\s*"([^"]+)"')
_PATH = re.compile(r'\bTransferFigures\s+\w+\s*[({]\s*"([^"]+)"')


def found_in(root: Path) -> dict[str, str]:
    """Name to kind: counter, gauge, timer, pair (`.calls` and `.bytes`), or path (a pair and
    `.seconds`)."""
    names = {}
    for path in sorted((root / "cpp").rglob("*.[hc]*")):
        code = re.sub(r"//.*", "", path.read_text())
        for kind, name, following in _FIGURE.findall(code):
            names[name if following == ")" else name + "*"] = kind
        names |= dict.fromkeys(_PAIR.findall(code), "pair")
        names |= dict.fromkeys(_PATH.findall(code), "path")
    # What a path has already is no figure of its own.
    paths = [name for name, kind in names.items() if kind == "path"]
    for name in paths:
        for what in ("calls", "bytes", "seconds"):
            names.pop(f"{name}.{what}", None)
    return dict(sorted(names.items()))


def table(root: Path) -> list[str]:
    names = found_in(root)
    if missing := [name for name in names if name not in MEANINGS]:
        raise LookupError(f"say in {Path(__file__).name} what these mean: {', '.join(missing)}")
    if stale := [name for name in MEANINGS if name not in names]:
        raise LookupError(f"no code counts these of {Path(__file__).name}: {', '.join(stale)}")
    rows = ["| key | kind | meaning |", "|---|---|---|"]
    for name, kind in names.items():
        key = name.replace("*", "<…>")
        keys, kinds = f"`{key}`", kind
        if kind == "path":
            keys, kinds = f"`{key}.calls`, `.bytes`, `.seconds`", "counters, timer"
        if kind == "pair":
            keys, kinds = f"`{key}.calls`, `.bytes`", "counters"
        if kind == "timer":
            keys += f", `{key}.calls`"
        rows.append(f"| {keys} | {kinds} | {MEANINGS[name]} |")
    return rows
