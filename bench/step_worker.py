"""A process that makes one training step for each line it reads, and prints its time and loss.

Started by contest.py as: step_worker.py WORKLOAD FRAMEWORK VARIANT, where the variant is a device
for torch and a layout for jax. Set-up is over, and the device idle, when it prints "ready".
"""

import importlib
import json
import sys
import time


def torch_runner(workload: str, device: str):
    import torch

    if device.startswith("xla"):
        import torch_pjrt  # noqa: F401
    target = torch.device(device)
    step = importlib.import_module(f"workloads.{workload}_torch").step(target)
    wait = torch.xla.synchronize if target.type == "xla" else (lambda: None)
    wait()

    def run() -> tuple[float, float]:
        start = time.perf_counter()
        loss = step()
        wait()
        return time.perf_counter() - start, loss.item()

    return run


def jax_runner(workload: str, layout: str):
    step = importlib.import_module(f"workloads.{workload}_jax").step(layout)

    def run() -> tuple[float, float]:
        start = time.perf_counter()
        loss = step().block_until_ready()
        return time.perf_counter() - start, float(loss)

    return run


def main() -> None:
    workload, framework, variant = sys.argv[1:]
    # Whatever else is printed must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    run = (torch_runner if framework == "torch" else jax_runner)(workload, variant)
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        seconds, loss = run()
        print(json.dumps({"seconds": seconds, "loss": loss}), file=answers, flush=True)


if __name__ == "__main__":
    main()
