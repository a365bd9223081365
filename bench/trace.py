"""Recording an operator on xla against running it on the CPU: chained adds of four floats.

    python bench/trace.py

The execution of what was recorded is outside the measured time.
"""

import time
from collections.abc import Callable
from statistics import median

import table

ADDS, ASKED = 200, 1.2


def chains(torch) -> dict[str, Callable]:
    """Ways to chain additions; the first is the one that is asked for."""

    def out_of_place(x, y):
        for _ in range(ADDS):
            x = x + y
        return x

    def in_place(x, y):
        for _ in range(ADDS):
            x += y
        return x

    def with_number(x, y):
        for _ in range(ADDS):
            x = x + 1.5
        return x

    return {"x + y": out_of_place, "x += y": in_place, "x + 1.5": with_number}


def microseconds(chain: Callable, x, y, wait: Callable[[], None]) -> float:
    """Time an operator; waits, outside of it, for what was recorded."""
    start = time.perf_counter()
    result = chain(x, y)
    elapsed = time.perf_counter() - start
    del result
    wait()
    return 1e6 * elapsed / ADDS


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--rounds", type=int, default=301)
    options = parser.parse_args()
    table.prepare(options)

    import torch

    import torch_pjrt

    def wait_xla() -> None:
        torch_pjrt.sync()
        torch.xla.synchronize()

    waits = {"cpu": lambda: None, "xla": wait_xla}
    rows = []
    for name, chain in chains(torch).items():
        tensors = {device: torch.ones(2, 4, device=device).unbind() for device in waits}
        times = {device: [] for device in waits}
        for _ in range(20 + options.rounds):
            for device, wait in waits.items():
                x, y = tensors[device]
                times[device].append(microseconds(chain, x.clone(), y, wait))
        cpu, xla = times["cpu"][20:], times["xla"][20:]
        ratio = median(a / b for a, b in zip(xla, cpu, strict=True))
        rows.append(
            {
                "operator": name,
                "cpu us": median(cpu),
                "xla us": median(xla),
                "xla / cpu": ratio,
                "asked": ASKED,
                "verdict": table.verdict(ratio, ASKED),
            }
        )
    table.show(rows, options.json)


if __name__ == "__main__":
    main()
