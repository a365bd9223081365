"""Runs accelerator_*cases.py where the xla device is the simulated accelerator's platform."""

import os
import subprocess
import sys
from pathlib import Path

from chaos_support import environment
from simulated_support import RUNTIME

FILES = Path(__file__).parent.glob("accelerator_*cases.py")
# Order first: what compiled functions leave in the process makes each gc.collect() twice as long.
CASES = sorted(map(str, FILES), reverse=True)
PLUGINS = ["-p", "no:cacheprovider", "-p", "accelerator_support"]


def test_the_simulated_accelerator():
    options = f"simulates={RUNTIME};simulated_device=1"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, *CASES],
        env=os.environ | environment(options),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]
