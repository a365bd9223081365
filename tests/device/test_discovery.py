"""Plugins are found by path, name, entry point and known package, without being imported."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "python" / "torch_pjrt" / "discovery.py"
A_PLUGIN = b"\x7fELF\0GetPjrtApi\0"
NOT_A_PLUGIN = b"\x7fELF\0something_else\0"


@pytest.fixture
def discovery(monkeypatch):
    """The module by itself: discovery needs neither torch nor the rest of the package."""
    spec = importlib.util.spec_from_file_location("discovery_alone", SOURCE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.delenv(module.ENVIRONMENT_VARIABLE, raising=False)
    return module


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty sys.path folder in place of the installed packages."""
    standard = [path for path in sys.path if "site-packages" not in path]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *standard])
    return tmp_path


def install(site, module, files, entry_point=None):
    """A package with `files`, whose import would fail the test, perhaps announced."""
    folder = site.joinpath(*module.split("."))
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('a plugin package was imported')")
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if entry_point:
        group, name = entry_point
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
    return folder


def test_the_three_cpu_plugins_are_found(discovery):
    found = {plugin.name: plugin for plugin in discovery.plugins()}
    assert set(discovery.CPU_PLUGINS) <= set(found)
    for name in discovery.CPU_PLUGINS:
        assert found[name].path.is_file()
    assert found["xla_cpu_pjrt"].source == "entry point group xla_plugins"


def test_the_search_imports_no_plugin_package(discovery):
    program = (
        # Only what the search adds: an editable install loads a finder at start-up.
        f"import runpy, sys; b = set(sys.modules); m = runpy.run_path({str(SOURCE)!r}); "
        "m['plugins'](); names = set(sys.modules) - b; "
        "print([n for n in names if 'pjrt' in n or 'xla' in n or n in ('jax', 'torch')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_default_follows_the_order_of_cpu_plugins(discovery):
    assert discovery.default_plugin().name == discovery.CPU_PLUGINS[0]


@pytest.mark.parametrize("group", ["xla_plugins", "jax_plugins"])
def test_an_entry_point_in_a_namespace_package_is_found(discovery, site, group):
    folder = install(site, "spaces.gpu", {"xla_gpu_plugin.so": A_PLUGIN}, (group, "gpu"))
    [plugin] = discovery.plugins()
    assert plugin == ("gpu", folder / "xla_gpu_plugin.so", f"entry point group {group}")


def test_the_library_that_exports_the_entry_is_taken(discovery, site):
    files = {"_versions.so": NOT_A_PLUGIN, "empty.so": b"", "plugin.so": A_PLUGIN}
    install(site, "several", files, ("jax_plugins", "several"))
    assert [plugin.path.name for plugin in discovery.plugins()] == ["plugin.so"]


def test_a_library_announced_twice_is_listed_once(discovery, site):
    install(site, "libtpu", {"libtpu.so": A_PLUGIN}, ("jax_plugins", "tpu"))
    assert [plugin.name for plugin in discovery.plugins()] == ["tpu"]


def test_a_cpu_plugin_comes_before_an_accelerator(discovery, site):
    install(site, "gpu", {"gpu.so": A_PLUGIN}, ("jax_plugins", "gpu"))
    install(site, "xla_plugins.xla_cpu_pjrt", {"c.so": A_PLUGIN}, ("xla_plugins", "xla_cpu_pjrt"))
    assert discovery.default_plugin().name == "xla_cpu_pjrt"
    assert discovery.default_plugin("gpu").name == "gpu"


def test_a_single_accelerator_is_the_default(discovery, site):
    install(site, "gpu", {"gpu.so": A_PLUGIN}, ("jax_plugins", "gpu"))
    assert discovery.default_plugin().name == "gpu"


def test_several_accelerators_need_a_choice(discovery, site):
    install(site, "gpu", {"gpu.so": A_PLUGIN}, ("jax_plugins", "gpu"))
    install(site, "npu", {"npu.so": A_PLUGIN}, ("jax_plugins", "npu"))
    with pytest.raises(discovery.PluginNotFoundError, match="set TORCH_PJRT_PLUGIN to one"):
        discovery.default_plugin()


def test_the_environment_variable_takes_a_name_or_a_path(discovery, monkeypatch):
    monkeypatch.setenv("TORCH_PJRT_PLUGIN", "xla_cpu_pjrt")
    by_name = discovery.default_plugin()
    assert by_name.name == "xla_cpu_pjrt" and "TORCH_PJRT_PLUGIN" in by_name.source
    monkeypatch.setenv("TORCH_PJRT_PLUGIN", str(by_name.path))
    assert discovery.default_plugin().path == by_name.path
    assert discovery.default_plugin("lammps_jax_pjrt_cpu").name == "lammps_jax_pjrt_cpu"


def test_no_plugin_says_how_to_install_one(discovery, site):
    with pytest.raises(discovery.PluginNotFoundError, match="none is installed.*pip install"):
        discovery.default_plugin()


def test_an_unknown_name_lists_what_there_is(discovery):
    with pytest.raises(discovery.PluginNotFoundError, match="'nope'.*lammps_jax_pjrt_cpu"):
        discovery.default_plugin("nope")


@pytest.mark.parametrize("missing", ["no_such.so", "folder/"])
def test_a_missing_path_is_named(discovery, tmp_path, missing):
    (tmp_path / "folder").mkdir()
    choice = str(tmp_path) + "/" + missing
    with pytest.raises(discovery.PluginNotFoundError, match=f"{missing}.*the library is missing"):
        discovery.default_plugin(choice)


def test_an_announced_package_without_library_is_reported(discovery, site):
    install(site, "hollow", {"hollow.so": NOT_A_PLUGIN}, ("jax_plugins", "hollow"))
    with pytest.raises(discovery.PluginNotFoundError, match="hollow of entry point.*no plugin"):
        discovery.default_plugin()
