"""Transfers of random sizes, layouts and dtypes from threads: every value right, memory flat.

    python bench/soak.py [--minutes 10]

Each thread moves tensors to the device and back, one by one or in batches, waits or does not, drops
results before they are there, fails on purpose, and collects garbage. Every value that comes back
is compared.
"""

import contextlib
import gc
import random
import resource
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import table

# The shapes that are computed with.
COMPUTED = ((7,), (64, 33), (512, 512))
# What allocators may still take once warm: 3 % and 24 MiB.
GROWTH, SLACK_MIB = 1.03, 24.0
SHORTEST_FOR_MEMORY = 1  # minutes


@dataclass
class Found:
    """What the threads did so far."""

    rounds: int = 0
    mib: float = 0.0
    wrong: int = 0
    errors: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Mover:
    """One thread's work, a round at a time; the seed tells all of it."""

    def __init__(self, seed: int, found: Found):
        import torch

        import torch_pjrt

        self._torch, self._transfer = torch, torch_pjrt.transfer
        self._random, self._found = random.Random(seed), found
        self._dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8]
        self._generator = torch.Generator().manual_seed(seed)

    def source(self):
        """A tensor of some layout, of up to about 8 MiB, mostly small."""
        torch, pick = self._torch, self._random
        numel = int(2 ** pick.uniform(0, 20 if pick.random() < 0.1 else 14))
        dims = [pick.randint(1, 9) for _ in range(pick.randint(0, 3))]
        dims.append(max(1, numel // max(1, self._product(dims))))
        x = torch.randint(0, 100, dims, generator=self._generator).to(pick.choice(self._dtypes))
        kind = pick.randrange(5)
        if kind == 0:
            x = x.permute(pick.sample(range(x.dim()), x.dim()))
        elif kind == 1:
            x = x[..., :: pick.randint(1, 3)]
        elif kind == 2:
            x = x[..., :1].expand(dims)
        elif kind == 3:
            x = x[..., pick.randrange(x.shape[-1]) :]
        return x

    @staticmethod
    def _product(dims: list[int]) -> int:
        result = 1
        for dim in dims:
            result *= dim
        return result

    def check(self, got, wanted) -> None:
        if not self._torch.equal(got, wanted):
            with self._found.lock:
                self._found.wrong += 1

    def round(self) -> None:
        torch, pick, kind = self._torch, self._random, self._random.randrange(8)
        sources = [self.source() for _ in range(pick.randint(1, 12))]
        if kind < 3:
            devices = self._transfer.to_device(sources)
        else:
            devices = [x.to("xla", non_blocking=pick.random() < 0.5) for x in sources]
        if kind == 0:
            del devices  # before anybody read them
            return
        if kind == 1:
            for got, wanted in zip(self._transfer.to_host(devices), sources, strict=True):
                self.check(got, wanted)
        elif kind == 2:
            # Each shape is a program, which the process keeps: always the same ones.
            sources = [torch.randint(0, 100, shape).float() for shape in COMPUTED]
            devices = [x.to("xla", non_blocking=True) for x in sources]
            results = [(x + x).to("cpu", non_blocking=True) for x in devices]
            if pick.random() < 0.5:
                return  # cancelled: dropped on their way
            torch.xla.synchronize()
            for got, wanted in zip(results, sources, strict=True):
                self.check(got, wanted + wanted)
        elif kind == 3:
            with contextlib.suppress(TypeError):
                torch.ones(3, dtype=torch.complex32).to("xla")
            self.check(devices[0].cpu(), sources[0])
        elif kind == 4:
            for device, source in zip(devices, sources, strict=True):
                target = torch.empty_like(source.clone())
                self.check(target.copy_(device), source)
        else:
            for device, source in zip(devices, sources, strict=True):
                source = source.clone()
                self.check(device.cpu(), source)
        if pick.random() < 0.02:
            # A cycle with a tensor: only the collector frees it.
            cycle = [devices]
            cycle.append(cycle)
            gc.collect()
        with self._found.lock:
            self._found.rounds += 1
            self._found.mib += sum(x.nbytes for x in sources) / 2**20


def run(minutes: float, threads: int, seed: int) -> dict:
    found, end = Found(), time.monotonic() + 60 * minutes
    stop = threading.Event()

    def work(number: int) -> None:
        mover = Mover(seed + number, found)
        while not stop.is_set():
            try:
                mover.round()
            except Exception as error:
                with found.lock:
                    found.errors.append(repr(error))
                return

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    # Programs are compiled, and the pool fills, in the first quarter.
    warm, most = time.monotonic() + 15 * minutes, 0.0
    start = 0.0
    while time.monotonic() < end and any(worker.is_alive() for worker in workers):
        time.sleep(min(1.0, 5 * minutes))
        resident = resident_mib()
        if time.monotonic() < warm:
            start = max(start, resident)
        else:
            most = max(most, resident)
    stop.set()
    for worker in workers:
        worker.join()
    import torch

    import torch_pjrt

    torch.xla.synchronize()
    gc.collect()
    figures = torch_pjrt.metrics.snapshot()
    # A shorter run ends before the pool and the programs are all there.
    flat = minutes < SHORTEST_FOR_MEMORY or most <= start * GROWTH + SLACK_MIB
    return {
        "minutes": minutes,
        "threads": threads,
        "rounds": found.rounds,
        "MiB moved": found.mib,
        "wrong": found.wrong,
        "errors": "; ".join(sorted(set(found.errors))) or None,
        "MiB when warm": start,
        "most MiB after": most,
        "in flight at end": figures.get("transfer.in_flight_bytes", 0),
        "verdict": "met" if flat and not found.wrong and not found.errors else "missed",
    }


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--workers", type=int, default=4, help="threads that move tensors")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table.prepare(options)
    import torch_pjrt  # noqa: F401

    row = run(options.minutes, options.workers, options.seed)
    table.show([row], options.json)
    raise SystemExit(0 if row["verdict"] == "met" else 1)


if __name__ == "__main__":
    main()
