"""Check that every C++ folder includes only what the layer table allows."""

import re
import subprocess
import sys
from pathlib import Path

# What each folder under cpp/ may include besides itself and the standard library.
LAYERS = {
    "base": (),
    "pjrt": ("base",),
    "transfer": ("base", "pjrt"),
    "graph": ("base", "pjrt", "transfer"),
    "dlpack": ("base", "pjrt", "transfer"),
    "aten": ("base", "pjrt", "transfer", "graph", "dlpack"),
    "chaos": ("base", "pjrt", "transfer", "graph"),  # tests only: the plugin is no layer
    "python": ("base", "pjrt", "transfer", "graph", "dlpack", "aten"),
}
CORE = ("base", "pjrt", "transfer", "graph", "dlpack")
FOREIGN = re.compile(r"^(torch|ATen|c10|caffe2|pybind11|Python\.h)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def fault(layer: str, header: str) -> str | None:
    """Why a file of `layer` may not include `header`, or None where it may."""
    if layer in CORE and FOREIGN.match(header):
        if layer == "dlpack" and header == "ATen/dlpack.h":
            return None
        return "the core knows neither torch nor Python"
    folder = header.split("/")[0]
    if "/" in header and folder in LAYERS and folder != layer and folder not in LAYERS[layer]:
        return f"expected one of {', '.join((layer, *LAYERS[layer]))}"
    if header == "pjrt_c_api.h" and layer == "base":
        return "base knows no PJRT"
    if header.startswith("../"):
        return "expected a path from cpp/"
    return None


def faults(root: Path, files: list[str]) -> list[str]:
    found = []
    for name in files:
        parts = Path(name).parts
        layer = parts[1] if parts[0] == "cpp" else parts[2]
        if layer not in LAYERS:
            found.append(f"{name}: folder {layer} is not in the table of {__file__}")
            continue
        text = (root / name).read_text()
        for match in INCLUDE.finditer(text):
            if why := fault(layer, match[1]):
                line = text.count("\n", 0, match.start(1)) + 1
                found.append(f"{name}:{line}: includes {match[1]}: {why}")
    return found


def main() -> int:
    root = Path(__file__).parents[1]
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "cpp/*/*", "tests/cpp/*/*"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [name for name in listing.stdout.split() if name.endswith((".h", ".cpp"))]
    found = faults(root, [name for name in files if (root / name).is_file()])
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
