"""Copies between host and device against memcpy, PyTorch's copy_, JAX and the plugin's own copies.

    python bench/transfer.py [--plot FILE.png] [--only WORD]

Contestants take turns in one process; a ratio is the median over the rounds of this project's time
by the other's. JAX takes part where it is installed, the plugin's own copies where the build has
`raw_plugin.so`.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import table
from transfer_references import Jax, ParallelMemcpy, RawPlugin

MIB = 2**20


@dataclass
class Row:
    """One comparison. A contestant is called with no arguments; it may return its own seconds."""

    what: str
    asked: float
    reference: str
    contestants: dict[str, Callable]  # "ours" and the others
    repeat: int = 1  # calls in one measurement
    asked_of: dict[str, float] = field(default_factory=dict)  # other contestants; 1: be ahead


def seconds(call: Callable, repeat: int) -> float:
    """Of one call; what a call returns is freed outside of the time where it is one call."""
    told = 0.0
    start = time.perf_counter()
    for _ in range(repeat):
        result = call()
        if isinstance(result, float):
            told += result
    elapsed = time.perf_counter() - start
    del result
    return (told or elapsed) / repeat


def measure(row: Row, rounds: int) -> dict[str, list[float]]:
    names = list(row.contestants)
    times = {name: [] for name in names}
    for turn in range(rounds + 2):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            elapsed = seconds(row.contestants[name], row.repeat)
            if turn >= 2:
                times[name].append(elapsed)
    return times


def result(row: Row, rounds: int) -> dict:
    times = measure(row, rounds)

    def ratio(name: str) -> float:
        return median(a / b for a, b in zip(times["ours"], times[name], strict=True))

    asked = {row.reference: row.asked} | row.asked_of
    missed = [name for name, most in asked.items() if name in times and ratio(name) > most]
    shown = {
        "what": row.what,
        "ours ms": 1e3 * median(times["ours"]),
        "reference": row.reference,
        "its ms": 1e3 * median(times[row.reference]),
        "ratio": ratio(row.reference),
        "asked": row.asked,
    }
    for name in ("torch", "jax", "plugin"):
        shown[f"/ {name}"] = ratio(name) if name in times else None
    shown["verdict"] = "missed: " + ", ".join(missed) if missed else "met"
    return shown


class Rows:
    """The rows of the table; sources have `mib` MiB."""

    def __init__(self, mib: int):
        import torch

        import torch_pjrt

        self.torch, self.pjrt = torch, torch_pjrt
        self.side = int((mib * MIB / 4) ** 0.5)
        self.memcpy, self.jax = ParallelMemcpy(), Jax.load()
        self.plugin = RawPlugin.load(torch_pjrt._C.plugin_path())

    def others(self, source, asked: dict[str, float]) -> tuple[dict[str, Callable], dict]:
        """JAX's and the plugin's copies of a host tensor; both must be slower."""
        calls = {}
        if self.jax:
            array = source.numpy()
            calls["jax"] = lambda: self.jax.to_device(array)
        if self.plugin:
            calls["plugin"] = lambda: self.plugin.to_device(source)
        return calls, {name: asked.get(name, 1.0) for name in calls}

    def dense(self) -> Iterator[Row]:
        torch, side = self.torch, self.side
        cube = torch.rand(side, side // 64, 64)
        layouts = {
            "dense": torch.rand(side, side),
            "dense, transposed": torch.rand(side, side).t(),
            "dense, 3-D permuted": cube.permute(2, 0, 1),
        }
        for name, source in layouts.items():
            warm = torch.ones_like(source)
            calls, asked_of = self.others(source, {})
            calls = {
                "ours": lambda source=source: source.to("xla"),
                "memcpy": lambda source=source, warm=warm: self.memcpy(warm, source),
                "torch": lambda source=source, warm=warm: warm.copy_(source),
            } | calls
            yield Row(f"to device: {name}", 1.25, "memcpy", calls, asked_of=asked_of)

    def gathered(self) -> Iterator[Row]:
        torch, side = self.torch, self.side
        slices = {
            "rows with gaps": torch.rand(side, side + 64)[:, :side],
            "every second column": torch.rand(side, side * 2)[:, ::2],
            "4-D permuted slice": torch.rand(16, side // 32, side // 16, 64)[
                :, :, : side // 32
            ].permute(0, 3, 1, 2),
        }
        for name, source in slices.items():
            warm = torch.ones(source.shape)
            calls, asked_of = self.others(source, {})
            calls = {
                "ours": lambda source=source: source.to(
                    "xla", memory_format=torch.contiguous_format
                ),
                "torch": lambda source=source, warm=warm: warm.copy_(source),
            } | calls
            yield Row(f"to device: {name}", 1.3, "torch", calls, asked_of=asked_of)

    def cast(self) -> Iterator[Row]:
        torch, side = self.torch, self.side
        casts = {
            "float64 to float32": (torch.rand(side, side, dtype=torch.float64), torch.float32),
            "float32 to bfloat16": (torch.rand(side, side), torch.bfloat16),
        }
        for name, (source, dtype) in casts.items():
            warm = torch.ones(source.shape, dtype=dtype)
            calls = {
                "ours": lambda source=source, dtype=dtype: source.to("xla", dtype),
                "torch": lambda source=source, warm=warm: warm.copy_(source),
            }
            if self.jax:
                array = source.numpy()
                calls["jax"] = lambda array=array, dtype=dtype: self.jax.to_device_as(array, dtype)
            yield Row(f"to device: {name}", 1.1, "torch", calls, asked_of={"jax": 1.0})

    def to_host(self) -> Iterator[Row]:
        torch, side = self.torch, self.side
        source = torch.rand(side, side)
        device = source.to("xla")
        warm, target = torch.ones_like(source), torch.ones_like(source)
        calls = {
            "ours": lambda: target.copy_(device),
            "memcpy": lambda: self.memcpy(warm, source),
            "torch": lambda: warm.copy_(source),
        }
        if self.plugin:
            self.plugin.to_device(source, keep=True)
            calls["plugin"] = lambda: self.plugin.to_host(warm)
        yield Row("to host: into a tensor", 1.25, "memcpy", calls, asked_of={"plugin": 1.0})
        if self.jax:
            array = source.numpy()
            calls = {
                "ours": lambda: device.cpu(),
                "jax": self.jax.fresh_to_host(array),
            }
            yield Row("to host: a new tensor", 1.0, "jax", calls)

    def tiny(self) -> Iterator[Row]:
        torch = self.torch
        host = torch.rand(4)
        device = host.to("xla")
        calls = {"ours": lambda: host.to("xla"), "cpu cast": lambda: host.to(torch.float64)}
        if self.jax:
            array = host.numpy()
            calls["jax"] = lambda: self.jax.put(array)
        yield Row("to device: 16 bytes", 2.0, "cpu cast", calls, 200, {"jax": 0.25})
        calls = {"ours": lambda: device.cpu(), "cpu cast": lambda: host.to(torch.float64)}
        if self.jax:
            calls["jax"] = self.jax.fresh_to_host(host.numpy(), view=True)
        yield Row("to host: 16 bytes", 2.0, "cpu cast", calls, 200, {"jax": 0.25})

    def batch(self) -> Iterator[Row]:
        torch, transfer = self.torch, self.pjrt.transfer
        count, each = 1000, self.side * self.side // 1000
        if each > 16384 or each < 16000:  # 64 KiB, but for short runs
            each = min(each, 16384)
        whole = torch.rand(count * each)
        tensors = [part.clone() for part in whole.split(each)]
        calls = {
            "ours": lambda: transfer.to_device(tensors),
            "one transfer": lambda: whole.to("xla"),
        }
        if self.jax:
            arrays = [tensor.numpy() for tensor in tensors]
            calls["jax"] = lambda: self.jax.to_device(arrays)
        name = f"{count} tensors of {each // 256} KiB"
        yield Row(f"to device: {name}", 1.3, "one transfer", calls, asked_of={"jax": 1.0})
        device, devices = whole.to("xla"), transfer.to_device(tensors)
        calls = {
            "ours": lambda: transfer.to_host(devices),
            "one transfer": lambda: whole.copy_(device),
        }
        if self.jax:
            calls["jax"] = self.jax.fresh_to_host(arrays)
        yield Row(f"to host: {name}", 1.3, "one transfer", calls, asked_of={"jax": 1.0})

    def all(self) -> Iterator[Row]:
        for group in (self.dense, self.gathered, self.cast, self.to_host, self.tiny, self.batch):
            yield from group()


# What is resident already, the client and its threads among it, does not count.
PEAK = """
import sys, torch, torch_pjrt
from pathlib import Path
def figure(name):
    status = Path("/proc/self/status").read_text()
    return int(status.split(name)[1].split()[0]) / 1024
source = torch.ones(int(sys.argv[1]) << 18)
torch.ones(4).to("xla").cpu()
before = figure("VmRSS:")
Path("/proc/self/clear_refs").write_text("5")
device = source.to("xla")
torch.xla.synchronize()
print(figure("VmHWM:") - before)
"""


def peak(mib: int) -> dict:
    """The peak of resident memory during a transfer to the device, beyond the source."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(mib)], capture_output=True, text=True, check=True
    )
    added = float(done.stdout)
    return {
        "what": f"peak memory of a transfer of {mib} MiB, beyond the source",
        "ours MiB": added,
        "device copy MiB": mib,
        "beyond it": added - mib,
        "asked": 64,
        "verdict": table.verdict(added - mib, 64),
    }


def plot(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(rows) + 1.5))
    places = range(len(rows))
    axes.barh(places, [row["ratio"] for row in rows], color="tab:blue", label="by the reference")
    for name, marker in (("jax", "o"), ("plugin", "D")):
        found = [(row[f"/ {name}"], i) for i, row in enumerate(rows) if row[f"/ {name}"]]
        if found:
            axes.plot(*zip(*found, strict=True), marker, color="black", label=f"by {name}", ms=5)
    axes.plot(
        [row["asked"] for row in rows], places, "|", color="tab:red", ms=16, mew=2, label="asked"
    )
    axes.axvline(1, color="grey", lw=0.8)
    axes.set_yticks(places, [f"{row['what']} / {row['reference']}" for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("time of torch-pjrt by the other's: left of 1 is faster")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--mib", type=int, default=64, help="size of the large arrays")
    parser.add_argument("--peak-mib", type=int, default=1024, help="size for the peak of memory")
    parser.add_argument("--only", metavar="WORD", help="rows whose name has this")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture of the ratios")
    options = parser.parse_args()
    table.prepare(options)
    rows = [
        result(row, options.rounds)
        for row in Rows(options.mib).all()
        if not options.only or options.only in row.what
    ]
    if rows:
        table.show(rows, options.json)
        if options.plot:
            plot(rows, options.plot)
    if not options.only:
        print()
        table.show([peak(options.peak_mib)], None)


if __name__ == "__main__":
    main()
