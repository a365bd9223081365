"""A loop that never reads or steps: the cap on the pending graph must cut it at few places.

    python bench/cap.py

Records 100 caps' worth of a loop of 700 operators, and counts the programs that compiles.
"""

import table

LOOP, CAPS, ASKED = 700, 100, 3


def main() -> None:
    parser = table.options(__doc__)
    parser.add_argument("--caps", type=int, default=CAPS)
    parser.add_argument("--loop", type=int, default=LOOP, help="operators in one turn")
    options = parser.parse_args()
    table.prepare(options)

    import torch

    import torch_pjrt

    def figure(name: str) -> int:
        return int(torch_pjrt.metrics.snapshot().get(name, 0))

    x, y = torch.ones(2, 4, device="xla").unbind()
    # What has been compiled before the loop is no part of it.
    torch_pjrt.sync()
    programs, executions = figure("compile.programs"), figure("execute.calls")
    cap = torch_pjrt.config.graph_limit
    recorded = 0
    while recorded < options.caps * cap:
        for index in range(options.loop):
            # No two neighbours alike, and no short period.
            x = x + y if index % 7 in (0, 3) else x * y if index % 11 else torch.tanh(x)
        recorded += options.loop
    programs = figure("compile.programs") - programs
    executions = figure("execute.calls") - executions
    torch.xla.synchronize()
    table.show(
        [
            {
                "operators in a turn": options.loop,
                "cap": cap,
                "recorded": recorded,
                "executions": executions,
                "programs": programs,
                "asked": ASKED,
                "verdict": table.verdict(programs, ASKED),
            }
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
