"""What all tests share: programs that a test starts use this checkout's package, too."""

import os
from pathlib import Path

PACKAGE_FOLDER = str(Path(__file__).parents[1] / "python")

if PACKAGE_FOLDER not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGE_FOLDER, inherited]))
