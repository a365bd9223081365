"""The generated pages are up to date, and what a page must explain cannot be left out."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "tools" / "generate_docs"


@pytest.fixture
def generator(monkeypatch):
    monkeypatch.syspath_prepend(GENERATOR)
    import configuration
    import metric_names

    yield configuration, metric_names
    for name in ("configuration", "metric_names"):
        sys.modules.pop(name)


def test_the_configuration_page_is_up_to_date():
    command = [sys.executable, GENERATOR, "--check", "configuration"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_unexplained_metric_fails(generator, tmp_path):
    _, metric_names = generator
    (tmp_path / "cpp").mkdir()
    (tmp_path / "cpp" / "a.cpp").write_text('base::counter("some.new_figure").add();')
    with pytest.raises(LookupError, match=r"some\.new_figure"):
        metric_names.table(tmp_path)


def test_each_kind_of_metric_is_found(generator, tmp_path):
    _, metric_names = generator
    (tmp_path / "cpp").mkdir()
    (tmp_path / "cpp" / "a.cpp").write_text(
        'counter("a"); timer("b"); gauge("c"); counter("d." + name); TransferFigures all{"e"};\n'
        'counter(c10::str("f.", x)); counter("e.calls");  // counter("no")\n'
    )
    assert metric_names.found_in(tmp_path) == {
        "a": "counter",
        "b": "timer",
        "c": "gauge",
        "d.*": "counter",
        "e": "path",
        "f.*": "counter",
    }


def test_an_unlisted_environment_variable_fails(generator, tmp_path):
    configuration, _ = generator
    shutil.copytree(ROOT / "python", tmp_path / "python", ignore=shutil.ignore_patterns("*.so"))
    shutil.copytree(ROOT / "cpp", tmp_path / "cpp")
    (tmp_path / "cpp" / "base" / "a.cpp").write_text('std::getenv("TORCH_PJRT_UNLISTED");')
    with pytest.raises(LookupError, match="TORCH_PJRT_UNLISTED"):
        configuration.environment(tmp_path)


def test_operators_tell_their_route():
    torch_pjrt = pytest.importorskip("torch_pjrt", reason="torch_pjrt._C is not built")
    routes = {(row.name, row.overload): row for row in torch_pjrt.operators()}
    assert routes["add", "Tensor"].route == "lowered" and routes["add", "Tensor"].core
    assert routes["matmul", ""].route == "composite"
    assert ("add_", "Tensor") not in routes
