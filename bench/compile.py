"""torch.compile's backend pjrt: what a call costs, and the transformer's training step.

    python bench/compile.py

The reference of a call is the same function under an AOTAutograd backend that returns prepared
outputs; that of a training step is the same step without torch.compile.
"""

import time
from collections.abc import Callable
from statistics import median

import table

INPUTS = 10


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
    works: dict[str, Callable], rounds: int, wait: Callable[[], None], inside: bool
) -> dict[str, list[float]]:
    times = {name: [] for name in works}
    for turn in range(5 + rounds):
        for name, work in works.items():
            taken = seconds_of(work, wait, inside)
            if turn >= 5:
                times[name].append(taken)
    return times


def calls(torch) -> dict[str, Callable]:
    """The same function: prepared, compiled, lazy. The first is the reference."""
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
    made["pjrt"] = compiled("pjrt")
    made["lazy"] = lambda: (function(*tensors), execute())[0]
    return made


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


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--what", choices=("call", "step", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=1001, help="of the call")
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    table.prepare(options)

    import torch

    import torch_pjrt  # noqa: F401

    wait = torch.xla.synchronize
    rows = []
    if options.what != "step":
        rows += rows_of("call", take_turns(calls(torch), options.rounds, wait, inside=False))
    if options.what != "call":
        from workloads import transformer_torch

        device = torch.device("xla")
        works = {
            "lazy": transformer_torch.step(device),
            "pjrt": transformer_torch.step(device, backend="pjrt"),
        }
        rows += rows_of("training step", take_turns(works, options.steps, wait, inside=True))
    table.show(rows, options.json)


if __name__ == "__main__":
    main()
