"""`python -m torch_pjrt info [--json]`: what device xla is here."""

import argparse
import json
import sys

from . import _C, __version__
from .discovery import PluginNotFoundError, default_plugin, plugins


def info() -> dict:
    """The plugin in use and its devices; creates the client."""
    figures = _C.client_info()
    return {
        "torch_pjrt": __version__,
        "plugin": figures["plugin"],
        "installed_plugins": {p.name: str(p.path) for p in plugins()},
        "api_version": ".".join(map(str, figures["api_version"])),
        "platform": figures["platform"],
        "platform_version": figures["platform_version"],
        "device_count": _C.device_count(),
        "devices": figures["devices"][: _C.device_count()],
        "dtypes": figures["element_types"],
        "dtype_policy": _C.dtype_policy(),
        "narrowed_dtypes": {
            str(dtype).removeprefix("torch."): str(held).removeprefix("torch.")
            for dtype, held in _C.narrowed_dtypes().items()
        },
        "extensions": figures["extensions"],
        "attributes": figures["attributes"],
    }


def text_of(figures: dict) -> str:
    lines = []
    for name, value in figures.items():
        if name == "devices":
            lines.append(f"devices            {len(value)}")
            lines += [
                f"  {device['name']}: {device['kind']}, memories {', '.join(device['memories'])}"
                for device in value
            ]
        elif isinstance(value, dict):
            lines.append(f"{name:<18} {len(value)}")
            lines += [f"  {key}: {entry}" for key, entry in value.items()]
        elif isinstance(value, list):
            lines.append(f"{name:<18} {', '.join(value)}")
        else:
            lines.append(f"{name:<18} {value}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_pjrt", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("info", help="print the plugin, its devices and abilities")
    command.add_argument("--json", action="store_true", help="print JSON for programs")
    options = parser.parse_args(arguments)
    try:
        default_plugin()
        figures = info()
    except (PluginNotFoundError, RuntimeError, ValueError) as error:
        print(f"torch_pjrt: {error}", file=sys.stderr)
        return 1
    print(json.dumps(figures, indent=2) if options.json else text_of(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
