"""Contestants that take turns, a process each, one step at a time: noise hits all alike."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Contestant:
    """Who runs: a framework with its device or layout, and a plugin for xla."""

    name: str
    framework: str
    variant: str
    plugin: str | None = None


@dataclass
class Steps:
    """What one contestant did."""

    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


class Worker:
    """One contestant's process, idle between steps. Closing it ends the process."""

    def __init__(self, contestant: Contestant, workload: str):
        self._name = contestant.name
        environment = dict(os.environ, JAX_PLATFORMS="cpu")
        # A program found on disk would not be a first step.
        environment.pop("TORCH_PJRT_CACHE_DIR", None)
        environment["OMP_NUM_THREADS"] = str(len(os.sched_getaffinity(0)))
        # Threads that spin while others run would slow those down.
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
        if contestant.plugin:
            environment["TORCH_PJRT_PLUGIN"] = contestant.plugin
        script = Path(__file__).with_name("step_worker.py")
        self._process = subprocess.Popen(
            [sys.executable, script, workload, contestant.framework, contestant.variant],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._answer()

    def _answer(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name}: ended with status {self._process.wait()}; see above")
        return line

    def step(self) -> tuple[float, float]:
        """Seconds and loss of one step, device idle before and after."""
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        answer = json.loads(self._answer())
        return answer["seconds"], answer["loss"]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def take_turns(
    contestants: list[Contestant], workload: str, *, warm: int, rounds: int
) -> dict[str, Steps]:
    """Steps by contestant: `rounds` measured ones after `warm` ones that only their losses keep."""
    workers = {}
    try:
        for contestant in contestants:
            workers[contestant.name] = Worker(contestant, workload)
        steps = {name: Steps() for name in workers}
        for turn in range(warm + rounds):
            names = list(workers)
            # Each goes first equally often.
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                seconds, loss = workers[name].step()
                steps[name].losses.append(loss)
                if turn >= warm:
                    steps[name].seconds.append(seconds)
        return steps
    finally:
        for worker in workers.values():
            worker.close()


def first_steps(
    contestants: list[Contestant], workload: str, *, repeats: int
) -> dict[str, list[float]]:
    """Seconds of the first step, each in a fresh process that runs alone."""
    seconds = {contestant.name: [] for contestant in contestants}
    for _ in range(repeats):
        for contestant in contestants:
            worker = Worker(contestant, workload)
            try:
                seconds[contestant.name].append(worker.step()[0])
            finally:
                worker.close()
    return seconds


def paired_ratio(numerator: list[float], denominator: list[float]) -> float:
    """Median of the ratios of what ran in the same round."""
    return median(a / b for a, b in zip(numerator, denominator, strict=True))


def same_losses(steps: dict[str, Steps], count: int, tolerance: float = 1e-3) -> bool:
    """Whether the first `count` losses agree: more, and rounding may have taken over."""
    columns = zip(*(s.losses[:count] for s in steps.values()), strict=True)
    return all(max(c) - min(c) <= tolerance * max(map(abs, c)) for c in columns)
