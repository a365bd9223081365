"""An editable install leaves the choice of the checkout to PYTHONPATH."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
pytest.importorskip("scikit_build_core", reason="the build backend's base is not installed")

from build_backend import link_by_path


def test_an_editable_wheel_links_by_path_alone(tmp_path):
    wheel = tmp_path / "thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("_editable_skbc_thing.py", "raise SystemExit('imported')")
        archive.writestr("_editable_skbc_thing.pth", "import _editable_skbc_thing\n/some/python\n")
        archive.writestr("thing-1.0.dist-info/METADATA", "Name: thing\nVersion: 1.0\n")
        archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("thing-1.0.dist-info/RECORD", "")
    link_by_path(wheel)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", tmp_path / "site", wheel], check=True)
    assert (tmp_path / "site" / "_editable_skbc_thing.pth").read_text() == "/some/python\n"
    assert not (tmp_path / "site" / "_editable_skbc_thing.py").exists()
