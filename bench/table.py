"""Printing a bench's rows as a table, and keeping them as JSON."""

import argparse
import json
import os
import platform
from pathlib import Path


def options(description: str) -> argparse.ArgumentParser:
    """A parser with what every bench understands."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the rows there too")
    parser.add_argument("--plugin", metavar="PATH", help="the PJRT plugin (TORCH_PJRT_PLUGIN)")
    parser.add_argument("--threads", type=int, metavar="N", help="use N cores; default all")
    return parser


def prepare(options: argparse.Namespace) -> None:
    """Applies --plugin and --threads to this process and those it starts; call before torch."""
    if options.plugin:
        os.environ["TORCH_PJRT_PLUGIN"] = options.plugin
    if options.threads:
        cores = sorted(os.sched_getaffinity(0))
        if not 1 <= options.threads <= len(cores):
            raise SystemExit(f"--threads: got {options.threads}, expected 1 to {len(cores)}")
        os.sched_setaffinity(0, cores[: options.threads])


def show(rows: list[dict], path: Path | None) -> None:
    """One line a row; the keys of the first are the columns. Keeps rows and machine in `path`."""
    columns = list(rows[0])
    lines = [columns] + [[_text(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for number, line in enumerate(lines):
        print(
            " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )
        if number == 0:
            print("-+-".join("-" * width for width in widths))
    if path:
        machine = {"cpus": len(os.sched_getaffinity(0)), "machine": platform.platform()}
        path.write_text(json.dumps({"rows": rows, **machine}, indent=1) + "\n")


def verdict(value: float, asked: float) -> str:
    return "met" if value <= asked else "missed"


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
