"""Find PJRT plugins: shared libraries that export `GetPjrtApi`.

Nothing is imported or loaded to find one, so a search costs no JAX import and has no side effect.
"""

import importlib.machinery
import mmap
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

ENVIRONMENT_VARIABLE = "TORCH_PJRT_PLUGIN"
ENTRY_POINT_GROUPS = ("xla_plugins", "jax_plugins")

# Packages that ship a plugin without announcing it as an entry point.
KNOWN_PACKAGES = ("lammps_jax_pjrt_cpu", "fastatomstruct_xla_cpu", "libtpu")

# The plugins that compute on the host, the fastest first (see the README's figures).
CPU_PLUGINS = ("lammps_jax_pjrt_cpu", "fastatomstruct_xla_cpu", "xla_cpu_pjrt")

HOW_TO_INSTALL = (
    "install one, for example `pip install xla-cpu-pjrt` or "
    "`pip install --no-deps lammps-jax-pjrt-cpu` (CPU), `pip install jax-cuda13-pjrt` (NVIDIA)"
)


class PluginNotFoundError(RuntimeError):
    """No plugin fits what was asked for."""


class Plugin(NamedTuple):
    """A plugin's library, and how it was found."""

    name: str
    path: Path
    source: str


def plugins() -> list[Plugin]:
    """Every plugin installed in this Python, each library once; entry points come first."""
    return _scan()[0]


def default_plugin(choice: str | os.PathLike[str] | None = None) -> Plugin:
    """The plugin to use: `choice`, else `TORCH_PJRT_PLUGIN`, else the first installed CPU plugin.

    A choice is a library's path or the name of an installed plugin. An accelerator's plugin is
    taken without being named only where it is the single plugin installed.
    """
    if choice is not None:
        return _chosen(os.fspath(choice), "argument")
    if name := os.environ.get(ENVIRONMENT_VARIABLE):
        return _chosen(name, ENVIRONMENT_VARIABLE)

    found, problems = _scan()
    by_name = {plugin.name: plugin for plugin in found}
    for name in CPU_PLUGINS:
        if name in by_name:
            return by_name[name]
    if len(found) == 1:
        return found[0]
    if found:
        raise PluginNotFoundError(
            f"choosing a PJRT plugin: several are installed and none is a known CPU plugin; "
            f"got {_listing(found, problems)}, expected one choice; "
            f"set {ENVIRONMENT_VARIABLE} to one of these names"
        )
    raise PluginNotFoundError(
        f"choosing a PJRT plugin: none is installed; got {_listing(found, problems)} "
        f"in {sys.prefix}, expected at least one; {HOW_TO_INSTALL}, "
        f"or set {ENVIRONMENT_VARIABLE} to a library's path"
    )


def _chosen(choice: str, source: str) -> Plugin:
    asked = f"choosing the PJRT plugin {choice!r} (from {source})"
    if os.sep in choice or choice.endswith((".so", ".dylib", ".dll")):
        path = Path(choice).expanduser().absolute()
        if not path.is_file():
            state = "a folder" if path.is_dir() else "no such file"
            raise PluginNotFoundError(
                f"{asked}: the library is missing; got {state}, "
                f"expected a shared library; give an existing file or an installed plugin's name"
            )
        return Plugin(path.stem, path, source)

    found, problems = _scan()
    for plugin in found:
        if plugin.name == choice:
            return plugin._replace(source=f"{source}, {plugin.source}")
    raise PluginNotFoundError(
        f"{asked}: no installed plugin has this name; got {_listing(found, problems)}, "
        f"expected one of these or a path; {HOW_TO_INSTALL}"
    )


def _listing(found: list[Plugin], problems: list[str]) -> str:
    names = ", ".join(plugin.name for plugin in found) or "none"
    return f"{names} ({'; '.join(problems)})" if problems else names


def _scan() -> tuple[list[Plugin], list[str]]:
    """The plugins found, and a sentence for each announced one that has no library."""
    candidates = [
        (point.name, point.module, f"entry point group {group}")
        for group in ENTRY_POINT_GROUPS
        for point in entry_points(group=group)
    ]
    candidates += [(package, package, "known package") for package in KNOWN_PACKAGES]

    found: dict[Path, Plugin] = {}
    problems = []
    for name, module, source in candidates:
        folders = _module_folders(module)
        library = _library_in(folders)
        if library:
            found.setdefault(library, Plugin(name, library, source))
        elif source != "known package" or folders:
            problems.append(f"{name} of {source} has no plugin library in module {module}")
    return list(found.values()), problems


def _module_folders(module: str) -> list[Path]:
    """Where a module's files lie, found without importing it or its parents."""
    search_path = None
    spec = None
    full_name = ""
    for part in module.split("."):
        full_name = f"{full_name}.{part}" if full_name else part
        spec = _find_spec(full_name, search_path)
        if spec is None:
            return []
        search_path = spec.submodule_search_locations
    if search_path is not None:
        return [Path(folder) for folder in search_path]
    return [Path(spec.origin).parent] if spec and spec.origin else []


def _find_spec(full_name: str, search_path) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find_spec = getattr(finder, "find_spec", None)
        spec = find_spec(full_name, search_path) if find_spec else None
        if spec is not None:
            return spec
    return None


def _library_in(folders: list[Path]) -> Path | None:
    """The library in a plugin's folder; where there are several, the first that is a plugin."""
    libraries = [
        path.resolve()
        for folder in folders
        for pattern in ("*.so", "*.dylib", "*.dll")
        for path in sorted(folder.glob(pattern))
        if not path.name.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES[:-1]))
    ]
    return next((path for path in libraries if _exports_get_pjrt_api(path)), None)


def _exports_get_pjrt_api(path: Path) -> bool:
    """Whether the library's string table names the plugin's entry; reads the file, not loads it."""
    if path.stat().st_size == 0:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"\0GetPjrtApi\0") >= 0
