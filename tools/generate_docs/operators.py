"""docs/operators.md: how device xla runs each operator, asked of the built module."""

import importlib.util
import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

MISSING_IS_AN_ERROR = os.environ.get("CI") == "true"


def grouped(rows) -> list[tuple[str, str, str]]:
    """(name, overloads, route), overloads of one name and route together."""
    overloads = defaultdict(list)
    for row in rows:
        overloads[row.name, row.route].append(row.overload or "default")
    return [(name, ", ".join(kinds), route) for (name, route), kinds in overloads.items()]


def page(root: Path) -> str | None:
    sys.path.insert(0, str(root / "python"))
    if importlib.util.find_spec("torch_pjrt._C") is None:
        if MISSING_IS_AN_ERROR:
            raise LookupError("torch_pjrt._C is not built")
        return None
    from torch_pjrt._operators import ROUTES, operators

    rows = operators()
    core, other = [r for r in rows if r.core], [r for r in rows if not r.core]
    core_count, other_count = Counter(r.route for r in core), Counter(r.route for r in other)
    lines = [
        "# Operators",
        "",
        "Written by `python tools/generate_docs operators`; do not edit. Overloads are counted "
        "one by one;",
        "`torch_pjrt.operators()` returns the same as a list.",
        "",
        "| route | how it runs | core operators | other functional ones |",
        "|---|---|---|---|",
        *(f"| {r} | {text} | {core_count[r]} | {other_count[r]} |" for r, text in ROUTES.items()),
        f"| all | | {len(core)} | {len(other)} |",
        "",
        "In-place and `out=` forms that have no row of their own are variants of these.",
        "",
        "Programs of devices that work on host memory and call functions of the process (XLA's CPU "
        "plugins, by PJRT's FFI extension) call PyTorch's own kernels for matrix factorisations "
        "and solves, eigenvalues, singular values, the matrix exponential, sorting and ranks.",
        "On other devices, and in exported programs, these are StableHLO; eigenvalues, singular "
        "values and LDL factors, which it lacks, run on the CPU there.",
        "",
        "## Core operators",
        "| operator | overloads | route |",
        "|---|---|---|",
        *(f"| {name} | {overloads} | {route} |" for name, overloads, route in grouped(core)),
        "",
        "## Other functional operators",
    ]
    for route in ROUTES:
        names = sorted({row.name for row in other if row.route == route})
        if names:
            lines += ["", f"### {route.capitalize()}", ", ".join(names)]
    return "\n".join(lines) + "\n"
