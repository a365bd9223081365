"""The build behind `pip install`: scikit-build-core's, with its own way to link a checkout.

scikit-build-core builds an editable install inside the source folder. Here it is built in
`build/`, where `make build` builds it too, and pip only links the package.
"""

import os
import subprocess
import sys
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
    return scikit.build_editable(wheel_directory, only_link(config_settings), metadata_directory)


def only_link(config_settings):
    return {**(config_settings or {}), "wheel.cmake": "false"}


def build_in_place():
    # The tools that pip installed beside this Python come before the system's.
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    python = f"-DPython_EXECUTABLE={sys.executable}"
    configure = ["cmake", "-S", ".", "-B", str(BUILD), "-G", "Ninja", python]
    subprocess.run(configure, check=True, env=environment)
    subprocess.run(["cmake", "--build", str(BUILD)], check=True, env=environment)
