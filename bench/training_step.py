"""A training step on xla against the same maths in jax.jit on the CPU, taking turns.

python bench/training_step.py --json steps.json
"""

import argparse
from statistics import median

import contest
import table

# JAX's layouts, of which the fastest is the reference; and variants that are shown beside it.
WORKLOADS = {"cnn": ("nhwc", "nchw"), "transformer": ("plain",)}
SHOWN = {"cnn": ("nhwc-reshape",), "transformer": ()}
ASKED_STEP, ASKED_FIRST = 1.15, 1.3
EQUAL_LOSSES = 5


def rows_of(workload: str, options: argparse.Namespace) -> list[dict]:
    def jax(layouts: tuple[str, ...]) -> list[contest.Contestant]:
        return [contest.Contestant(f"jax {layout}", "jax", layout) for layout in layouts]

    references, shown = jax(WORKLOADS[workload]), jax(SHOWN[workload])
    others = [contest.Contestant(f"torch {d}", "torch", d) for d in options.devices]
    everyone = references + shown + others
    steps = contest.take_turns(everyone, workload, warm=options.warm, rounds=options.rounds)
    best = min((r.name for r in references), key=lambda name: median(steps[name].seconds))
    first = contest.first_steps(
        [c for c in everyone if c in others or c.name == best], workload, repeats=options.repeats
    )
    rows = []
    for name, made in steps.items():
        is_xla = name.startswith("torch xla")
        ratio = contest.paired_ratio(made.seconds, steps[best].seconds)
        row = {
            "workload": workload,
            "who": name,
            "step ms": 1e3 * median(made.seconds),
            "against jax": ratio,
            f"asked {ASKED_STEP}": table.verdict(ratio, ASKED_STEP) if is_xla else None,
        }
        if first.get(name):
            ratio = median(first[name]) / median(first[best])
            row["first step ms"] = 1e3 * median(first[name])
            row["first against jax"] = ratio
            row[f"asked {ASKED_FIRST}"] = table.verdict(ratio, ASKED_FIRST) if is_xla else None
        row["first loss"], row[f"loss {len(made.losses)}"] = made.losses[0], made.losses[-1]
        row["losses equal"] = (
            "yes" if contest.same_losses({"a": made, "b": steps[best]}, EQUAL_LOSSES) else "NO"
        )
        rows.append(row)
    # The best JAX row is complete, so its columns head the table.
    return sorted(rows, key=lambda row: row["who"] != best)


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--workload", choices=(*WORKLOADS, "both"), default="both")
    parser.add_argument(
        "--devices", nargs="*", default=["xla", "cpu"], help="torch devices; default xla cpu"
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3, help="of the first step")
    options = parser.parse_args()
    table.prepare(options)
    workloads = WORKLOADS if options.workload == "both" else [options.workload]
    table.show([row for w in workloads for row in rows_of(w, options)], options.json)


if __name__ == "__main__":
    main()
