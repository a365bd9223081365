"""Hashing and emission of large programs, per operator: recording and compilation are apart.

    python bench/hashing.py

Nothing is compiled: the plugin is wrapped by the chaos plugin, which refuses to. So each execution
hashes and emits the program anew.
"""

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import table

SIZES = (3000, 10000, 30000)
ASKED, ASKED_GROWTH = 5.0, 1.2
BUILT = Path(__file__).parents[1] / "build" / "plugins" / "chaos" / "libpjrt_chaos.so"
CHAOS = Path(os.environ.get("PJRT_CHAOS_LIBRARY", BUILT))


def operators(torch) -> list[Callable]:
    """Calls that record one operator each, from a 16 x 16 matrix to another."""
    from torch.nn import functional

    weight, bias = torch.ones(16, 16, device="xla"), torch.ones(16, device="xla")
    mask = torch.ones(16, 16, device="xla") > 0
    torch.xla.synchronize()
    return [
        lambda x: x @ weight,
        lambda x: x + bias,
        functional.gelu,
        lambda x: x * 0.5,
        lambda x: functional.layer_norm(x, (16,)),
        lambda x: x.softmax(-1),
        lambda x: torch.where(mask, x, bias),
        lambda x: x - weight,
        lambda x: x.cumsum(1),
        torch.tanh,
        lambda x: x.sum(1, keepdim=True).expand(16, 16),
        torch.rsqrt,
    ]


def refuse_to_compile(torch) -> None:
    import ctypes

    # An error of the device: parts of the program are not tried by themselves.
    configure = ctypes.CDLL(CHAOS).pjrt_chaos_configure
    configure.restype = ctypes.c_char_p
    problem = configure(b"fail=PJRT_Client_Compile:*:UNAVAILABLE")
    if problem:
        raise RuntimeError(f"{CHAOS.name}: {problem.decode()}")


def row_of(count: int, calls: list[Callable], rounds: int) -> dict:
    import torch

    import torch_pjrt

    def figure(name: str) -> float:
        return torch_pjrt.metrics.snapshot().get(name, 0)

    recorded, hashed, emitted = [], [], []
    for _ in range(rounds):
        x = torch.ones(16, 16).to("xla")
        before = figure("hash.seconds"), figure("emit.seconds"), figure("emit.seconds.calls")
        start = time.perf_counter()
        for index in range(count):
            x = calls[index % len(calls)](x)
        recorded.append(time.perf_counter() - start)
        torch_pjrt.sync()
        hashed.append(figure("hash.seconds") - before[0])
        emitted.append(figure("emit.seconds") - before[1])
        if figure("emit.seconds.calls") - before[2] != 1:
            raise RuntimeError("expected one program; is graph_limit too low?")
        del x
    scale = 1e6 / count
    # The least: there is no pair to divide by, and other work on the machine only adds.
    both = min(a + b for a, b in zip(hashed, emitted, strict=True))
    return {
        "operators": count,
        "recording us": scale * min(recorded),
        "hashing us": scale * min(hashed),
        "emission us": scale * min(emitted),
        "both us": scale * both,
        "asked": ASKED,
        "verdict": table.verdict(scale * both, ASKED),
    }


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    table.prepare(options)
    if not CHAOS.exists():
        parser.error(f"{CHAOS} is not there; `make build` makes it")
    import torch

    import torch_pjrt
    from torch_pjrt import discovery

    os.environ["PJRT_CHAOS_PLUGIN"] = str(discovery.default_plugin().path)
    torch_pjrt.config.set_plugin(str(CHAOS))
    torch_pjrt.config.graph_limit = 10 * max(SIZES)
    calls = operators(torch)
    refuse_to_compile(torch)
    gc.disable()
    rows = [row_of(count, calls, options.rounds) for count in SIZES]
    table.show(rows, options.json)
    growth = rows[-1]["both us"] / rows[0]["both us"]
    print()
    table.show(
        [
            {
                "per operator": f"{SIZES[-1]:,} against {SIZES[0]:,}",
                "ratio": growth,
                "linear": ASKED_GROWTH,
                "verdict": table.verdict(growth, ASKED_GROWTH),
            }
        ],
        None,
    )


if __name__ == "__main__":
    main()
