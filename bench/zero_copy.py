"""Crossings of the border between cpu and xla that share memory, against DLPack and copies.

    python bench/zero_copy.py

Without JAX the reference is NumPy's DLPack, which is quicker. Tensors are made before the clock
starts and released after it stops.
"""

import gc
import time
from collections.abc import Callable
from statistics import median

import table

MIB = 1 << 20
MOST_MICROSECONDS, MOST_AGAINST_DLPACK, MOST_AGAINST_PARTS, MOST_AGAINST_COPY = 15, 2, 1.05, 1.25


def microseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    result = action()
    elapsed = time.perf_counter() - start
    del result
    return 1e6 * elapsed


def taking_turns(actions: dict[str, Callable], rounds: int) -> dict[str, list[float]]:
    times = {name: [] for name in actions}
    for turn in range(rounds + 3):
        for name, action in actions.items():
            took = microseconds(action)
            if turn >= 3:
                times[name].append(took)
    return times


def ratio(numerator: list[float], denominator: list[float]) -> float:
    return median(a / b for a, b in zip(numerator, denominator, strict=True))


def reference(torch, elements: int) -> tuple[str, Callable]:
    """A crossing of the same size that others make."""
    try:
        import jax
    except ImportError:
        import numpy

        array = numpy.ones(elements, numpy.float32)
        return "numpy", lambda: torch.from_dlpack(array)
    jax.config.update("jax_platforms", "cpu")
    array = jax.numpy.ones(elements, jax.numpy.float32).block_until_ready()
    return "jax", lambda: torch.from_dlpack(array)


def crossings(torch, torch_pjrt, rounds: int) -> list[dict]:
    elements = 64 * MIB // 4
    device, small = (torch.ones(n).to("xla") for n in (elements, MIB // 4))
    host, small_host = torch.ones(elements), torch.ones(MIB // 4)
    source, other = reference(torch, elements)

    def adopt(tensor):
        with torch_pjrt.zero_copy():
            return tensor.to("xla")

    times = taking_turns(
        {
            "reference": other,
            "xla to cpu": lambda: device.to("cpu"),
            "cpu to xla": lambda: adopt(host),
            "there and back": lambda: device.to("cpu").to("xla"),
            "torch.from_dlpack(xla)": lambda: torch.from_dlpack(device),
            "torch_pjrt.from_dlpack(cpu)": lambda: torch_pjrt.from_dlpack(host),
            "xla to cpu, 1 MiB": lambda: small.to("cpu"),
            "cpu to xla, 1 MiB": lambda: adopt(small_host),
        },
        rounds,
    )
    rows = []
    for name in list(times)[1:]:
        against = ratio(times[name], times["reference"])
        asked = name in ("xla to cpu", "cpu to xla")
        met = median(times[name]) <= MOST_MICROSECONDS and against <= MOST_AGAINST_DLPACK
        rows.append(
            {
                "what": name + ("" if "MiB" in name else ", 64 MiB"),
                "us": median(times[name]),
                "reference": f"torch.from_dlpack({source})",
                "reference us": median(times["reference"]),
                "ratio": against,
                "asked": f"{MOST_MICROSECONDS} us, {MOST_AGAINST_DLPACK} x" if asked else None,
                "verdict": ("met" if met else "missed") if asked else None,
            }
        )
    return rows


def step_with_crossings(torch, torch_pjrt, rounds: int, width: int, batch: int) -> dict:
    """Blocks on xla, cpu, xla against the xla ones together and the cpu one by itself."""
    from torch import nn

    def block(device: str) -> nn.Module:
        layers = [nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU()]
        return nn.Sequential(*layers).to(device)

    def stepper(blocks: list[tuple[nn.Module, str]]) -> Callable[[], None]:
        parameters = [p for module, _ in blocks for p in module.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
        data = torch.randn(batch, width).to(blocks[0][1])

        def step() -> None:
            optimizer.zero_grad()
            x = data
            with torch_pjrt.zero_copy():
                for module, device in blocks:
                    x = module(x.to(device))
            x.square().mean().backward()
            optimizer.step()
            torch_pjrt.sync()

        return step

    times = taking_turns(
        {
            "mixed": stepper([(block(d), d) for d in ("xla", "cpu", "xla")]),
            "lazy": stepper([(block("xla"), "xla"), (block("xla"), "xla")]),
            "eager": stepper([(block("cpu"), "cpu")]),
        },
        rounds,
    )
    parts = [a + b for a, b in zip(times["lazy"], times["eager"], strict=True)]
    against = ratio(times["mixed"], parts)
    return {
        "what": "training step with 4 crossings",
        "us": median(times["mixed"]),
        "reference": "lazy part and eager part, each by itself",
        "reference us": median(parts),
        "ratio": against,
        "asked": f"{MOST_AGAINST_PARTS} x",
        "verdict": table.verdict(against, MOST_AGAINST_PARTS),
    }


def misaligned_import(torch, torch_pjrt, rounds: int) -> dict:
    elements = 64 * MIB // 4
    memory = torch.ones(elements + 1)
    array, aligned = memory[1:].numpy(), torch.ones(elements)

    def copies() -> int:
        return torch_pjrt.metrics.snapshot().get("dlpack.copied.misaligned.calls", 0)

    before = copies()

    def run(action: Callable):
        x = action()
        torch_pjrt.sync()
        return x

    times = taking_turns(
        {
            "import": lambda: run(lambda: torch_pjrt.from_dlpack(array)),
            "copy": lambda: run(lambda: aligned.to("xla")),
        },
        rounds,
    )
    if copies() - before != rounds + 3:
        raise RuntimeError(f"expected one copy an import; got {copies() - before}")
    against = ratio(times["import"], times["copy"])
    return {
        "what": "misaligned import, 64 MiB",
        "us": median(times["import"]),
        "reference": "cpu_tensor.to('xla') with a copy",
        "reference us": median(times["copy"]),
        "ratio": against,
        "asked": f"{MOST_AGAINST_COPY} x",
        "verdict": table.verdict(against, MOST_AGAINST_COPY),
    }


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--rounds", type=int, default=301)
    parser.add_argument("--width", type=int, default=1024, help="of the training step's layers")
    options = parser.parse_args()
    table.prepare(options)

    import torch

    import torch_pjrt

    gc.disable()
    rows = crossings(torch, torch_pjrt, options.rounds)
    rows.append(misaligned_import(torch, torch_pjrt, max(5, options.rounds // 10)))
    rows.append(
        step_with_crossings(torch, torch_pjrt, max(5, options.rounds // 10), options.width, 256)
    )
    table.show(rows, options.json)


if __name__ == "__main__":
    main()
