"""docs/chaos.md: the tables of the chaos plugin's options and counts, asked of the plugin."""

import ctypes
import os
import re
from pathlib import Path

HEADS = {"options": ("option", "default", "meaning"), "counts": ("count", "meaning")}


def library(root: Path) -> Path:
    built = root / "build" / "plugins" / "chaos" / "libpjrt_chaos.so"
    return Path(os.environ.get("PJRT_CHAOS_LIBRARY", built))


def table(name: str, lines: str) -> str:
    head = HEADS[name]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for line in lines.splitlines():
        first, *rest = line.split("|")
        rows.append(f"| `{first}` | {' | '.join(rest)} |")
    return "\n".join(rows)


def page(root: Path) -> str | None:
    """The page with its tables made anew; None where the plugin is not built."""
    if not library(root).is_file():
        return None
    plugin = ctypes.CDLL(str(library(root)))
    text = (root / "docs" / "chaos.md").read_text()
    for name in HEADS:
        ask = getattr(plugin, f"pjrt_chaos_{name}")
        ask.restype = ctypes.c_char_p
        begin, end = f"<!-- {name}: written by tools/generate_docs -->", f"<!-- end of {name} -->"
        found = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
        if not found.search(text):
            raise LookupError(f"the lines '{begin}' and '{end}' are missing")
        made = f"{begin}\n{table(name, ask().decode())}\n{end}"
        text = found.sub(lambda _, made=made: made, text)
    return text
