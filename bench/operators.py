"""Operators and blocks on xla against JAX's jitted equivalents on the CPU, in pairs.

    python bench/operators.py [--only WORD ...]

A time is that of one execution, from launch to ready: inputs are on the device, programs are
compiled, what PyTorch records is recorded before the clock starts, and the threads of both sides
are asleep then. Results are compared too.
"""

import gc
import os
import time
from collections.abc import Callable
from statistics import median

import table
from contest import paired_ratio

ASKED_MEDIAN, ASKED_WORST = 1.05, 1.5
FEWEST, MOST = 15, 400
# XLA's workers spin for up to 20 us after their last task and take another within that at half the
# cost. Recording outlasts that and JAX's next call does not, so both are timed with workers asleep.
SETTLED = 100e-6
SIZES = ["small", "large"]


def seconds(work: Callable[[], object]) -> float:
    settled = time.perf_counter() + SETTLED
    while time.perf_counter() < settled:  # awake: a core that slept is slow at first
        pass
    start = time.perf_counter()
    result = work()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


class Ours:
    """A function of PyTorch on xla."""

    def __init__(self, function: Callable, arrays):
        import torch

        self._function = function
        self._inputs = [torch.from_numpy(array).to("xla") for array in arrays]
        self._wait = torch.xla.synchronize
        self._wait()

    def run(self) -> float:
        result = self._function(*self._inputs)
        elapsed = seconds(self._wait)
        del result
        return elapsed

    def values(self) -> list:
        result = self._function(*self._inputs)
        parts = result if isinstance(result, (tuple, list)) else [result]
        return [part.cpu().numpy() for part in parts]


class Jax:
    """The same in JAX."""

    def __init__(self, function: Callable, arrays):
        import jax

        self._jax = jax
        self._function = jax.jit(function)
        self._inputs = jax.block_until_ready([jax.device_put(array) for array in arrays])

    def run(self) -> float:
        return seconds(lambda: self._jax.block_until_ready(self._function(*self._inputs)))

    def values(self) -> list:
        import numpy

        return [
            numpy.asarray(part) for part in self._jax.tree.leaves(self._function(*self._inputs))
        ]


def difference(ours: list, theirs: list) -> float:
    """The largest, against the largest value; infinite where integers, shapes or dtypes differ."""
    import numpy

    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if not numpy.issubdtype(a.dtype, numpy.inexact):
            worst = max(worst, 0.0 if numpy.array_equal(a, b) else float("inf"))
        elif a.size:
            worst = max(worst, float(abs(a - b).max() / max(abs(b).max(), 1e-30)))
    return worst


def rows_of(pair, sizes: list[str], budget: float) -> list[dict]:
    """One row a size; each takes about `budget` seconds."""
    rows = []
    for name in sizes:
        size = getattr(pair, name)
        arrays = pair.arrays(*size)
        both = [Ours(pair.torch, arrays), Jax(pair.jax, arrays)]
        differ = difference(*(each.values() for each in both))
        for _ in range(3):
            warm = [each.run() for each in both]
        times: list[list[float]] = [[], []]
        for turn in range(min(MOST, max(FEWEST, int(budget / sum(warm))))):
            # Each goes first equally often.
            for who in ((0, 1), (1, 0))[turn % 2]:
                times[who].append(both[who].run())
        rows.append(
            {
                "what": pair.name,
                "size": name,
                "of": " x ".join(map(str, size)),
                "ours us": 1e6 * median(times[0]),
                "jax us": 1e6 * median(times[1]),
                "ratio": paired_ratio(*times),
                f"asked {ASKED_WORST}": table.verdict(paired_ratio(*times), ASKED_WORST),
                "difference": differ,
                "equal": "yes" if differ <= pair.tolerance else "NO",
            }
        )
    return rows


def summary(rows: list[dict]) -> list[dict]:
    ratios = [row["ratio"] for row in rows]
    return [
        {
            "of the ratios": name,
            "is": found,
            "asked": asked,
            "verdict": table.verdict(found, asked),
        }
        for name, found, asked in (
            ("median", median(ratios), ASKED_MEDIAN),
            ("worst", max(ratios), ASKED_WORST),
        )
    ]


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument(
        "--only", metavar="WORD", nargs="+", default=[""], help="names that have one of these"
    )
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    parser.add_argument("--seconds", type=float, default=0.6, help="for each row")
    options = parser.parse_args()
    table.prepare(options)
    # Threads of OpenMP (ours) and of OpenBLAS (JAX's) that spin after a call slow the other side.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"

    import jax

    import torch_pjrt  # noqa: F401

    jax.config.update("jax_platforms", "cpu")
    # Results of the same dtypes as PyTorch's: its integers have 64 bits.
    jax.config.update("jax_enable_x64", True)
    from workloads import block_pairs, operator_pairs

    gc.disable()
    pairs = [*operator_pairs.PAIRS, *block_pairs.PAIRS]
    chosen = [pair for pair in pairs if any(word in pair.name for word in options.only)]
    if not chosen:
        parser.error(f"--only: no name has {' or '.join(options.only)}")
    rows = [row for pair in chosen for row in rows_of(pair, options.sizes, options.seconds)]
    table.show(rows, options.json)
    print()
    table.show(summary(rows), None)
    wrong = [f"{row['what']}, {row['size']}" for row in rows if row["equal"] != "yes"]
    if wrong:
        raise SystemExit(f"bench/operators.py: values differ from JAX's: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
