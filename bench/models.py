"""A ResNet-18, a ViT, a GPT-2 and BERT's layers: training steps on xla.

    python bench/models.py [--model NAME]

Parameters after three steps are compared with those of the CPU, in float64: in float32 rounding
decides much: of inputs to a ReLU that are nearly zero, of gradients that ought to be zero, which
AdamW scales up to a whole step. What fell back to the CPU is counted, and steps in float32 take
turns with the same maths in `jax.jit`.
"""

import argparse
import importlib
from statistics import median

import contest
import table

# JAX's layouts, of which the fastest is the reference.
MODELS = {"resnet18": ("nhwc", "nchw"), "vit": ("plain",), "gpt2": ("plain",), "bert": ("plain",)}
ASKED_STEP = 1.15
MOST_APART = 1e-6
STEPS = 3


def equality_of(model: str) -> dict:
    """Parameters after some steps against the CPU's; the way that they moved is the measure."""
    import torch

    import torch_pjrt

    workload = importlib.import_module(f"workloads.{model}_torch")
    networks, moved = {}, {}
    torch_pjrt.metrics.reset()
    for device in ("cpu", "xla"):
        training = workload.make(workload.Sizes()).to(torch.float64)
        start = {name: p.detach().clone() for name, p in training.network.named_parameters()}
        step = training.step(torch.device(device))
        for _ in range(STEPS):
            step()
        networks[device] = {n: p.detach().cpu() for n, p in training.network.named_parameters()}
        moved = {name: networks[device][name] - p for name, p in start.items()}
    figures = torch_pjrt.metrics.snapshot()
    apart = sum(float((networks["xla"][n] - p).square().sum()) for n, p in networks["cpu"].items())
    way = sum(float(p.square().sum()) for p in moved.values())
    return {
        "parameters, millions": sum(p.numel() for p in networks["cpu"].values()) / 1e6,
        f"from the CPU after {STEPS} steps, by the way moved": (apart / way) ** 0.5,
        "equal": table.verdict((apart / way) ** 0.5, MOST_APART),
        "fallbacks": sum(torch_pjrt.metrics.fallbacks().values()),
        "programs": figures["compile.programs"],
    }


def speed_of(model: str, options: argparse.Namespace) -> dict:
    references = [contest.Contestant(f"jax {name}", "jax", name) for name in MODELS[model]]
    others = [contest.Contestant(f"torch {d}", "torch", d) for d in options.devices]
    steps = contest.take_turns(references + others, model, warm=options.warm, rounds=options.rounds)
    best = min((r.name for r in references), key=lambda name: median(steps[name].seconds))
    ours = steps["torch xla"]
    ratio = contest.paired_ratio(ours.seconds, steps[best].seconds)
    row = {
        "xla ms": 1e3 * median(ours.seconds),
        "jax ms": 1e3 * median(steps[best].seconds),
        "layout": best.removeprefix("jax "),
        "against jax": ratio,
        f"asked {ASKED_STEP}": table.verdict(ratio, ASKED_STEP),
        "losses equal": "yes"
        if contest.same_losses({"a": ours, "b": steps[best]}, STEPS)
        else "NO",
    }
    if "torch cpu" in steps:
        row["against torch cpu"] = contest.paired_ratio(ours.seconds, steps["torch cpu"].seconds)
    return row


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--model", choices=MODELS, help="default all")
    parser.add_argument("--devices", nargs="*", default=["xla", "cpu"], help="torch devices")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warm", type=int, default=3)
    options = parser.parse_args()
    table.prepare(options)
    models = [options.model] if options.model else list(MODELS)
    rows = [{"model": m} | equality_of(m) | speed_of(m, options) for m in models]
    table.show(rows, options.json)


if __name__ == "__main__":
    main()
