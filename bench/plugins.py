"""The CPU plugins against each other and against jax.jit: training steps, taking turns.

python bench/plugins.py
"""

from statistics import median

import contest
import table
from training_step import WORKLOADS

PLUGINS = ("lammps_jax_pjrt_cpu", "fastatomstruct_xla_cpu", "xla_cpu_pjrt")


def rows_of(workload: str, rounds: int) -> list[dict]:
    everyone = [contest.Contestant("jax", "jax", WORKLOADS[workload][0])]
    everyone += [contest.Contestant(name, "torch", "xla", plugin=name) for name in PLUGINS]
    steps = contest.take_turns(everyone, workload, warm=5, rounds=rounds)
    times = {name: made.seconds for name, made in steps.items()}
    fastest = min(PLUGINS, key=lambda name: median(times[name]))
    return [
        {
            "workload": workload,
            "who": name,
            "step ms": 1e3 * median(seconds),
            "against jax": contest.paired_ratio(seconds, times["jax"]),
            f"against {PLUGINS[0]}": contest.paired_ratio(seconds, times[PLUGINS[0]]),
            "fastest plugin": "yes" if name == fastest else None,
            "losses equal": "yes"
            if contest.same_losses({"a": steps["jax"], "b": steps[name]}, 5)
            else "NO",
        }
        for name, seconds in times.items()
    ]


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    if options.plugin:
        parser.error("--plugin: this bench runs all plugins; leave it out")
    table.prepare(options)
    table.show([row for w in WORKLOADS for row in rows_of(w, options.rounds)], options.json)


if __name__ == "__main__":
    main()
