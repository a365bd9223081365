"""The build behind `pip install`: scikit-build-core's, with its own way to link a checkout.

scikit-build-core builds an editable install inside the source folder. Here it is built in
`build/`, where `make build` builds it too, and pip only links the package.
"""

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from scikit_build_core import build as scikit
from scikit_build_core.build import (  # noqa: F401 (the hooks that pip calls)
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

BUILD = Path("build")


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    return scikit.prepare_metadata_for_build_editable(
        metadata_directory, only_link(config_settings)
    )


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    build_in_place()
    name = scikit.build_editable(wheel_directory, only_link(config_settings), metadata_directory)
    link_by_path(Path(wheel_directory) / name)
    return name


def only_link(config_settings):
    return {**(config_settings or {}), "wheel.cmake": "false"}


def link_by_path(wheel: Path):
    """Takes scikit-build-core's import hook out of an editable wheel and leaves the path to the
    package. The hook comes before PYTHONPATH, so that another checkout that uses the same
    environment would test this one's package instead of its own."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    kept = {}
    for name, content in files.items():
        if name.startswith("_editable_") and name.endswith(".pth"):
            lines = content.decode().splitlines(keepends=True)
            content = "".join(line for line in lines if not line.startswith("import ")).encode()
        elif name == record or name.startswith("_editable_"):
            continue
        kept[name] = content
    listing = "".join(
        f"{name},{digest(content)},{len(content)}\n" for name, content in kept.items()
    )
    kept[record] = f"{listing}{record},,\n".encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in kept.items():
            archive.writestr(name, content)


def digest(content: bytes) -> str:
    code = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return f"sha256={code.decode().rstrip('=')}"


def build_in_place():
    # The tools that pip installed beside this Python come before the system's.
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    python = f"-DPython_EXECUTABLE={sys.executable}"
    configure = ["cmake", "-S", ".", "-B", str(BUILD), "-G", "Ninja", python]
    subprocess.run(configure, check=True, env=environment)
    subprocess.run(["cmake", "--build", str(BUILD)], check=True, env=environment)
