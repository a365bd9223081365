"""docs/configuration.md: settings, environment variables and metric keys."""

import ast
import re
import runpy
from pathlib import Path

import metric_names

PACKAGE = Path("python/torch_pjrt")


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def settings(root: Path) -> list[str]:
    """One row for each property of Config; its docstring names its variable and default."""
    tree = ast.parse((root / PACKAGE / "_config.py").read_text())
    config = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Config")
    rows = ["| setting | type | meaning |", "|---|---|---|"]
    for function in config.body:
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        meaning = ast.get_docstring(function)
        decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
        if decorators == ["property"]:
            if not meaning or "TORCH_PJRT_" not in meaning or "default" not in meaning:
                raise LookupError(
                    f"the docstring of config.{function.name} must name its environment variable "
                    "and its default"
                )
            rows.append(
                f"| `{function.name}` | {ast.unparse(function.returns)} | {one_line(meaning)} |"
            )
        elif not decorators:
            rows.append(f"| `{function.name}(…)` | function | {one_line(meaning or '')} |")
    return rows


def variables_in_code(root: Path) -> set[str]:
    """Every variable that the package reads."""
    sources = [*(root / "cpp").rglob("*.cpp"), *(root / PACKAGE).glob("*.py")]
    sources = [path for path in sources if path.name != "_environment.py"]
    return {
        name for path in sources for name in re.findall(r'"(TORCH_PJRT_[A-Z_]+)"', path.read_text())
    }


def environment(root: Path) -> list[str]:
    tables = runpy.run_path(str(root / PACKAGE / "_environment.py"))
    listed = {variable.name for variable in tables["VARIABLES"]}
    in_settings = set(
        re.findall(r'\("(TORCH_PJRT_[A-Z_]+)", "', (root / PACKAGE / "_config.py").read_text())
    )
    in_code = variables_in_code(root)
    if missing := in_code - listed - in_settings:
        raise LookupError(f"list these in _environment.py: {', '.join(sorted(missing))}")
    if stale := listed - in_code:
        raise LookupError(f"no code reads these of _environment.py: {', '.join(sorted(stale))}")
    rows = ["| variable | default | meaning |", "|---|---|---|"]
    return rows + [f"| `{v.name}` | {v.default} | {v.meaning} |" for v in tables["VARIABLES"]]


def page(root: Path) -> str:
    return "\n".join(
        [
            "# Settings, environment variables and metrics",
            "",
            "Written by `python tools/generate_docs configuration`; do not edit.",
            "",
            "## Settings",
            "Attributes of `torch_pjrt.config`. The variable in brackets sets one at import.",
            "",
            *settings(root),
            "",
            "## Other environment variables",
            *environment(root),
            "",
            "## Metrics",
            "Keys of `torch_pjrt.metrics.snapshot()`; a figure is there once its code has run. "
            "A timer's own key is",
            "its seconds. `torch_pjrt.metrics.reset()` zeroes counters and timers; gauges stay.",
            "",
            *metric_names.table(root),
            "",
        ]
    )
