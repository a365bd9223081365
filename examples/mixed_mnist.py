"""Trains a digit classifier, part of it lazy on xla and part eager on another device.

python examples/mixed_mnist.py --plot mnist.png
"""

import argparse
import contextlib
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

import training_report as report
from digit_data import DataError, Digits, load_digits
from mixed_network import MixedNetwork, flop_shares

BATCH = 64
CHECK_STEPS = 50
WARM_STEPS = 3
TOLERANCE = 1e-3


@dataclass
class Run:
    """What a training run leaves behind."""

    network: MixedNetwork
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    accuracies: list[tuple[int, float]] = field(default_factory=list)
    parameters_at_check: dict[str, torch.Tensor] = field(default_factory=dict)
    # Programs compiled by each step and by each evaluation.
    step_programs: list[int] = field(default_factory=list)
    # Bytes copied at the border in each step, to the device and back.
    step_copies: list[tuple[int, int]] = field(default_factory=list)
    evaluation_programs: list[int] = field(default_factory=list)


def sharing(device: torch.device) -> contextlib.AbstractContextManager:
    """Within it tensors cross to xla without a copy; back they always do."""
    if device.type != "xla":
        return contextlib.nullcontext()
    import torch_pjrt

    return torch_pjrt.zero_copy()


def train(
    digits: Digits,
    device: torch.device,
    eager_device: torch.device,
    *,
    steps: int,
    seed: int,
    counters: report.Counters,
    stop_after: int | None = None,
) -> Run:
    """Trains for `steps` steps, evaluating at the end of each pass over the data.

    `stop_after` ends it earlier and in silence, on the learning rates of all `steps`.
    """
    torch.manual_seed(seed)
    run = Run(MixedNetwork(digits.side, device, eager_device))
    optimizer = torch.optim.SGD(run.network.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loader = DataLoader(
        TensorDataset(digits.train_images, digits.train_labels),
        batch_size=min(BATCH, len(digits.train_images)),
        shuffle=True,
        drop_last=True,  # a smaller batch would compile the step's programs anew, once
        generator=torch.Generator().manual_seed(seed),
    )
    last_step = stop_after or steps
    bar = tqdm(total=steps, unit="step", disable=stop_after is not None, dynamic_ncols=True)
    accuracy = math.nan
    while len(run.losses) < last_step:
        for images, labels in loader:
            programs, copied = counters.programs(), counters.copied()
            start = time.perf_counter()
            optimizer.zero_grad()
            with sharing(device):
                loss = functional.cross_entropy(run.network(images), labels.to(device))
            loss.backward()
            optimizer.step()
            schedule.step()
            run.losses.append(loss.item())
            run.seconds.append(time.perf_counter() - start)
            step = len(run.losses)
            if step == CHECK_STEPS:
                run.parameters_at_check = {
                    name: parameter.detach().cpu().clone()
                    for name, parameter in run.network.named_parameters()
                }
            run.step_programs.append(counters.programs() - programs)
            to_device, back = counters.copied()
            run.step_copies.append((to_device - copied[0], back - copied[1]))
            bar.update()
            bar.set_postfix(loss=f"{run.losses[-1]:.4f}", accuracy=f"{accuracy:.4f}", refresh=False)
            if step == last_step:
                break
        programs = counters.programs()
        accuracy = evaluate(run.network.copy_on(device), digits)
        run.accuracies.append((len(run.losses), accuracy))
        run.evaluation_programs.append(counters.programs() - programs)
    bar.set_postfix(loss=f"{run.losses[-1]:.4f}", accuracy=f"{accuracy:.4f}")
    bar.close()
    return run


@torch.no_grad()
def evaluate(network: MixedNetwork, digits: Digits) -> float:
    """Accuracy on the test digits."""
    network.eval()
    right = 0
    for images, labels in zip(
        digits.test_images.split(1000), digits.test_labels.split(1000), strict=True
    ):
        guesses = network(images).argmax(1)
        right += int((guesses == labels.to(guesses.device)).sum())
    return right / len(digits.test_labels)


def check(run: Run, reference: Run, counters: report.Counters) -> list[str]:
    """What is wrong with the parameters, programs and fallbacks of `run`."""
    faults = []
    worst = 0.0
    for name, expected in reference.parameters_at_check.items():
        got = run.parameters_at_check[name]
        difference = float((got - expected).norm() / expected.norm())
        worst = max(worst, difference)
        if not difference <= TOLERANCE:
            faults.append(f"{name}: differs by {difference:.2e}, expected at most {TOLERANCE:.0e}")
    print(f"parameters after {CHECK_STEPS} steps against all-CPU: {worst:.1e} relative")
    for step, programs in enumerate(run.step_programs[WARM_STEPS:], start=WARM_STEPS + 1):
        if programs:
            faults.append(f"step {step}: compiled {programs} programs, expected none")
    for step, copied in enumerate(run.step_copies, start=1):
        if any(copied):
            faults.append(
                f"step {step}: copied {copied[0]} bytes to the device and {copied[1]} back, "
                f"expected none"
            )
    for number, programs in enumerate(run.evaluation_programs):
        allowed = 0 if number else 1
        if programs > allowed:
            faults.append(
                f"evaluation {number + 1}: compiled {programs} programs, expected at most {allowed}"
            )
    if counters.fallbacks():
        faults.append(f"CPU fallbacks: got {counters.fallbacks()}, expected none")
    return faults


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, prog="mixed_mnist")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="MNIST's IDX files, gzipped or not"
    )
    parser.add_argument("--device", default="xla", help="of stem and head (default xla)")
    parser.add_argument(
        "--eager-device", default="cpu", help="of the block: cpu (default), cuda or another"
    )
    parser.add_argument("--all-cpu", action="store_true", help="everything on cpu, to compare")
    parser.add_argument(
        "--steps", type=int, metavar="N", help="default 330: 15 passes over scikit-learn's digits"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw loss and accuracy")
    parser.add_argument("--check", action="store_true", help="compare with an all-CPU run")
    parser.add_argument("--short", action="store_true", help="66 steps, for CI")
    options = parser.parse_args(arguments)
    if options.steps is None:
        options.steps = 66 if options.short else 330
    if options.steps < 1:
        parser.error(f"--steps: too few; got {options.steps}, expected at least 1")
    if options.check and options.steps < CHECK_STEPS:
        parser.error(f"--check: needs {CHECK_STEPS} steps; got --steps {options.steps}")
    if options.plot and not options.plot.absolute().parent.is_dir():
        parser.error(f"--plot: no directory {str(options.plot.parent)!r}; create it first")
    try:
        options.digits = load_digits(options.data)
    except DataError as error:
        parser.error(str(error))
    if options.all_cpu:
        options.device = options.eager_device = "cpu"
    if options.eager_device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("--eager-device cuda: this PyTorch sees no CUDA device; use cpu")
    try:
        options.eager_device = torch.device(options.eager_device)
    except RuntimeError as error:
        parser.error(f"--eager-device: {error}")
    try:
        options.device = torch.device(options.device)
        if options.device.type == "xla":
            import torch_pjrt  # noqa: F401
    except ImportError as error:
        parser.error(
            f"--device xla: torch_pjrt is not installed ({error}); run `make`, or use --all-cpu"
        )
    except RuntimeError as error:
        parser.error(f"--device: {error}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    digits, eager = options.digits, options.eager_device
    counters = report.Counters(
        options.device.type == "xla", accelerator=eager.type not in ("cpu", "xla")
    )
    run = train(
        digits, options.device, eager, steps=options.steps, seed=options.seed, counters=counters
    )
    ends, middle = flop_shares(run.network, digits.train_images[:BATCH])
    print(
        f"arithmetic: {ends:.0%} on {options.device} (stem, head), {middle:.0%} on {eager} (block)"
    )
    print(f"test accuracy: {run.accuracies[-1][1]:.4f}")
    report.print_step_time(run.seconds)
    report.print_counters(counters)
    report.print_copies(run.step_copies)
    if options.plot:
        report.plot(options.plot, run.losses, run.accuracies)
        print(f"plot: {options.plot}")
    if options.check:
        cpu = torch.device("cpu")
        reference = train(
            digits, cpu, cpu, steps=options.steps, seed=options.seed,
            counters=report.Counters(False), stop_after=CHECK_STEPS,
        )  # fmt: skip
        faults = check(run, reference, counters)
        for fault in faults:
            print(f"check failed: {fault}", file=sys.stderr)
        if faults:
            return 1
        print("check passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
