"""Memory, live buffers and programs over 1,000 training steps: all must stay flat.

python bench/steady.py
"""

import gc
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import table

SETTLED, SAMPLE_EVERY = 100, 50
# What allocators and the plugin's own threads may still take: 1 % and 4 MiB.
GROWTH, SLACK_MIB = 1.01, 4.0


@dataclass(frozen=True)
class Sample:
    """Figures between two steps."""

    step: int
    resident_mib: float
    buffers: int
    programs: int


def observe(step: int) -> Sample:
    import torch

    import torch_pjrt

    gc.collect()
    torch_pjrt.sync()
    torch.xla.synchronize()
    figures = torch_pjrt.metrics.snapshot()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        step,
        pages * resource.getpagesize() / 2**20,
        int(figures.get("pjrt.live_buffers", 0)),
        int(figures.get("compile.programs", 0)),
    )


def adam_with_schedule() -> Iterator[None]:
    """An MLP with Adam, a schedule, and a Python number that is another one in each step."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10)).to("xla")
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    images, labels = torch.randn(32, 64), torch.arange(32) % 10
    step = 0
    while True:
        step += 1
        optimizer.zero_grad()
        logits = network(images.to("xla")) * (1 + 1 / step)
        nn.functional.cross_entropy(logits, labels.to("xla")).backward()
        optimizer.step()
        schedule.step()
        yield


def mixed_model() -> Iterator[None]:
    """A model whose middle is on the CPU, so that its backward runs on two threads."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    first, last = nn.Linear(64, 64).to("xla"), nn.Linear(64, 10).to("xla")
    middle = nn.Sequential(nn.GELU(), nn.Linear(64, 64), nn.GELU())
    parameters = [*first.parameters(), *middle.parameters(), *last.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-2, momentum=0.9)
    images, labels = torch.randn(32, 64), torch.arange(32) % 10
    while True:
        optimizer.zero_grad()
        logits = last(middle(first(images.to("xla")).cpu()).to("xla"))
        nn.functional.cross_entropy(logits, labels.to("xla")).backward()
        optimizer.step()
        yield


SCENARIOS = {"adam, schedule, number": adam_with_schedule, "mixed": mixed_model}


def row_of(name: str, steps: int) -> dict:
    loop, samples = SCENARIOS[name](), []
    for step in range(1, steps + 1):
        next(loop)
        if step >= SETTLED and step % SAMPLE_EVERY == 0:
            samples.append(observe(step))
    start, rest = samples[0], samples[1:]
    peak = max(sample.resident_mib for sample in rest)
    flat = (
        peak <= start.resident_mib * GROWTH + SLACK_MIB
        and all(sample.buffers <= start.buffers for sample in rest)
        and rest[-1].programs == start.programs
    )
    return {
        "scenario": name,
        "steps": steps,
        f"MiB at {SETTLED}": start.resident_mib,
        "most MiB after": peak,
        f"buffers at {SETTLED}": start.buffers,
        "most buffers after": max(sample.buffers for sample in rest),
        f"programs at {SETTLED}": start.programs,
        "programs at end": rest[-1].programs,
        "flat": "met" if flat else "missed",
    }


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    if options.steps < SETTLED + SAMPLE_EVERY:
        parser.error(f"--steps: got {options.steps}, expected {SETTLED + SAMPLE_EVERY} or more")
    table.prepare(options)
    import torch_pjrt  # noqa: F401

    table.show([row_of(name, options.steps) for name in SCENARIOS], options.json)


if __name__ == "__main__":
    main()
