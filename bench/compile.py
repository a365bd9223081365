"""torch.compile's backend pjrt: what a call costs, and the transformer's training step.

    python bench/compile.py
    python bench/compile.py --what first    # the first call: minutes

The reference of a call is the same function under an AOTAutograd backend that returns prepared
outputs; `launch` is what PJRT alone takes to launch the same program in the same run. That of a
training step is the same step without torch.compile; `jax` is the same step in JAX, if it is there.

The first call of the compiled transformer, forward and backward, is measured in processes of their
own: without and with the disk cache, Inductor's, and that of AOTAutograd without a compiler.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import table

INPUTS = 10
ABOVE_LAUNCH = 5  # microseconds
AGAINST_JAX = 1.1
AGAINST_INDUCTOR = 0.25  # of a first call
ABOVE_NOTHING = 0.5  # seconds, with the disk cache


def seconds_of(work: Callable[[], object], wait: Callable[[], None], inside: bool) -> float:
    """Of the call; with `inside`, until the device is idle again."""
    start = time.perf_counter()
    result = work()
    if inside:
        wait()
    elapsed = time.perf_counter() - start
    del result
    wait()
    return elapsed


def take_turns(
    works: dict[str, Callable],
    rounds: int,
    wait: Callable[[], None],
    inside: bool,
    **timed: Callable,
) -> dict[str, list[float]]:
    """`timed` measure themselves."""
    times = {name: [] for name in (*works, *timed)}
    for turn in range(5 + rounds):
        taken = {name: seconds_of(work, wait, inside) for name, work in works.items()}
        for name, work in timed.items():
            taken[name] = work()
            wait()
        if turn >= 5:
            for name, seconds in taken.items():
                times[name].append(seconds)
    return times


def calls(torch) -> tuple[dict[str, Callable], Callable[[], float]]:
    """The same function: prepared, compiled, lazy, of which the first is the reference; and what
    tells the seconds of a bare launch of the compiled program."""
    from torch._dynamo.backends.common import aot_autograd

    tensors = [torch.ones(2, device="xla") for _ in range(INPUTS)]
    prepared = (torch.ones(2, device="xla"),)

    def function(*values):
        return sum(values[1:], values[0])

    def prepare(graph, example_inputs):
        def call(arguments):
            arguments.clear()
            return prepared

        call._boxed_call = True
        return call

    def compiled(backend) -> Callable:
        # Another code object each: Dynamo keeps what it compiled by code.
        code = function.__code__.replace(co_name=f"function_{len(made)}")
        run = torch.compile(type(function)(code, globals()), backend=backend, fullgraph=True)
        return lambda: run(*tensors)

    made: dict[str, Callable] = {}
    made["prepared"] = compiled(aot_autograd(fw_compiler=prepare))
    graphs = keep_graphs()
    made["pjrt"] = compiled("pjrt")
    made["pjrt"]()
    made["lazy"] = lambda: (function(*tensors), execute())[0]
    made["pjrt"]()
    return made, lambda: graphs[0].time_launch(list(tensors))


def keep_graphs() -> list:
    """What the backend compiles from now on."""
    from torch_pjrt._compile import backend

    kept, call_of = [], backend._call_of

    def keep(*arguments):
        kept.append(call_of(*arguments))
        return kept[-1]

    backend._call_of = keep
    return kept


def execute() -> None:
    from torch_pjrt import _C

    _C.execute_all()


def rows_of(what: str, times: dict[str, list[float]]) -> list[dict]:
    reference = next(iter(times))
    return [
        {
            "what": what,
            "who": who,
            "us": 1e6 * median(taken),
            "more than the reference, us": 1e6
            * median(a - b for a, b in zip(taken, times[reference], strict=True)),
            "ratio": median(a / b for a, b in zip(taken, times[reference], strict=True)),
        }
        for who, taken in times.items()
    ]


def jax_step() -> dict[str, Callable[[], float]]:
    """What tells the seconds of a step in JAX; empty where JAX is not installed."""
    if importlib.util.find_spec("jax") is None:
        return {}
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from workloads import transformer_jax

    step = transformer_jax.step("")

    def timed() -> float:
        start = time.perf_counter()
        step().block_until_ready()
        return time.perf_counter() - start

    return {"jax": timed}


def against(times: dict[str, list[float]], asked: dict[str, float]) -> list[dict]:
    """The compiled step against others, with the ratios that are asked for."""
    rows = []
    for who in [who for who in asked if who in times]:
        ratio = median(a / b for a, b in zip(times["pjrt"], times[who], strict=True))
        verdict = table.verdict(ratio, asked[who])
        name = f"pjrt / {who}: {verdict}, asked {asked[who]}"
        rows.append({"what": "training step", "who": name, "ratio": ratio})
    return rows


def above_launch(times: dict[str, list[float]]) -> dict:
    """What a compiled call costs above Dynamo, AOTAutograd and PJRT."""
    more = median(a - b for a, b in zip(times["pjrt"], times["prepared"], strict=True))
    above = 1e6 * (more - median(times["launch"]))
    verdict = table.verdict(above, ABOVE_LAUNCH)
    return {
        "what": "call",
        "who": f"pjrt - prepared - launch: {verdict}, asked {ABOVE_LAUNCH}",
        "us": above,
    }


def first_calls() -> list[dict]:
    worker = Path(__file__).with_name("first_call_worker.py")

    def times_of(backend: str, folder: str) -> dict[str, float]:
        caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCH_PJRT_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, worker, backend],
            env=os.environ | caches,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])

    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as its:
        times = {
            "inductor, cold": times_of("inductor", its),
            "pjrt, cold": times_of("pjrt", ours),
            "pjrt, disk cache": times_of("pjrt", ours),
            "nothing": times_of("nothing", ours),
        }
    rows = [{"what": "first call", "who": who, **taken} for who, taken in times.items()]
    for clock in ("first", "first, processor"):
        ratio = times["pjrt, cold"][clock] / times["inductor, cold"][clock]
        above = times["pjrt, disk cache"][clock] - times["nothing"][clock]
        for who, value, asked in (
            ("cold / inductor", ratio, AGAINST_INDUCTOR),
            ("disk cache - nothing", above, ABOVE_NOTHING),
        ):
            verdict = table.verdict(value, asked)
            rows.append(
                {"what": "first call", "who": f"{who}: {verdict}, asked {asked}", clock: value}
            )
    return rows


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--what", choices=("call", "step", "both", "first"), default="both")
    parser.add_argument("--rounds", type=int, default=1001, help="of the call")
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    table.prepare(options)
    if options.what == "first":
        return table.show(first_calls(), options.json)

    import torch

    import torch_pjrt  # noqa: F401

    wait = torch.xla.synchronize
    rows = []
    if options.what != "step":
        works, launch = calls(torch)
        times = take_turns(works, options.rounds, wait, inside=False, launch=launch)
        rows += rows_of("call", times)
        rows.append(above_launch(times))
    if options.what != "call":
        from workloads import transformer_torch

        device = torch.device("xla")
        works = {
            "lazy": transformer_torch.step(device),
            "pjrt": transformer_torch.step(device, backend="pjrt"),
        }
        times = take_turns(works, options.steps, wait, inside=True, **jax_step())
        rows += rows_of("training step", times)
        rows += against(times, {"lazy": 1.0, "jax": AGAINST_JAX})
    table.show(rows, options.json)


if __name__ == "__main__":
    main()
